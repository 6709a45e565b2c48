"""A process that publishes an artifact of so many MiB, to be measured: `publish_process.py ARTIFACTS TARGET MIB`.

Prints what was published and how far its memory grew meanwhile, as JSON.
"""

from __future__ import annotations

import json
import sys

from kit.store_process import content, peak_kib, say
from stanchion.connectors.store import Publication, Store
from stanchion.objects import open_store
from stanchion.workflow.artifact import Artifact
from stanchion.workflow.operation import Call

TENANT = "measured"


def main(artifacts: str, target: str, mib: int) -> None:
    with open_store(artifacts) as store:
        stored = store.within(TENANT).put(content(mib), most_bytes=10**9)
    pages = Artifact("art_1", "pages", 1, stored.sha256.hex(), stored.size, "text/plain")
    public = Store(target, artifacts=artifacts)
    publish = public.operation("shelf.publish")
    call = Call("stn_key", "op_1", TENANT, 600.0)
    publish.do(call, Publication("small", text="all that is imported on the way is there"))
    before = peak_kib()
    receipt = publish.do(call, Publication("large", artifact=pages))
    assert publish.check is not None
    assert publish.check(call, Publication("large", artifact=pages)) == receipt
    public.close()
    say(
        json.dumps(
            {
                "sha256": stored.sha256.hex(),
                "receipt": publish.encode_receipt(receipt),
                "grown_mib": (peak_kib() - before) / 1024,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
