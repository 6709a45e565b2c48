"""Sign-in at a provider of OpenID Connect: authorization code with PKCE, state and nonce.

What comes back is believed when all of it fits: the state is one that this installation gave, to this browser, and was
not used; the code is exchanged with the verifier that only we have; the identity token is signed by a key of the
provider with an algorithm of the list, and says the issuer, the audience, the time and the nonce that it must say.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from ipaddress import ip_network
from typing import Any, Final
from urllib.parse import quote_plus, urlencode, urlsplit
from uuid import UUID

from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from stanchion.authority.keys import ROLES, Keys
from stanchion.authority.people import Identity, People, handle_from, handle_of
from stanchion.errors import NotAllowed, StanchionError, Unauthenticated, Unavailable, register_code
from stanchion.runtime.clock import monotonic, utc_now
from stanchion.runtime.logging import get_logger
from stanchion.runtime.outside import Rules, request

from .sign_in_settings import SignInSettings

ALGORITHMS: Final = (
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
)
"""Signatures by a key that the provider alone has; never `none`, never one by a shared secret."""

SIGN_IN_SECONDS: Final = 600
LEEWAY_SECONDS: Final = 60
ANSWER_SECONDS: Final = 10.0
ANSWER_BYTES: Final = 1024 * 1024
DISCOVERED_SECONDS: Final = 3_600.0
KEYS_AGAIN_SECONDS: Final = 10.0  # a token with an unknown key makes us ask for the keys again, not more often

REFUSED: Final = register_code(
    "E-AUTH-09",
    "sign-in failed",
    status=401,
    meaning="What came back from the provider was not what a sign-in of this browser has to bring.",
    fix="Begin anew. If it lasts, the log of the task service says what did not fit.",
)
NO_ROLE: Final = register_code(
    "E-AUTH-10",
    "no role here",
    status=403,
    meaning="The provider knows this person, and none of their groups has a role here.",
    fix="Add a group to STANCHION_OIDC_ROLES, or set STANCHION_OIDC_DEFAULT_ROLE.",
)
AWAY: Final = register_code(
    "E-AUTH-11",
    "provider is away",
    status=503,
    meaning="The provider of sign-in does not answer, or not as OpenID Connect says.",
    fix="Check STANCHION_OIDC_ISSUER and the provider.",
)

_ANYWHERE: Final = Rules((ip_network("0.0.0.0/0"), ip_network("::/0")))
"""The provider is the operator's choice, and often stands in a private network."""

log = get_logger()


@dataclass(frozen=True, slots=True)
class Begun:
    """Where the browser goes, and what it has to bring back."""

    url: str
    binder: str


@dataclass(frozen=True, slots=True)
class Provider:
    """What a provider says of itself."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str


class Oidc:
    """One provider. What it says of itself is remembered for an hour."""

    def __init__(self, settings: SignInSettings, keys: Keys, people: People) -> None:
        self.settings = settings
        self.keys = keys
        self.people = people
        self._lock = threading.Lock()
        self._provider: tuple[float, Provider] | None = None
        self._jwks: tuple[float, KeySet] | None = None

    def begin(self, return_to: str) -> Begun:
        """A sign-in that goes to the provider; raises Unavailable E-AUTH-11."""
        provider = self._discovered()
        state, binder, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(4))
        self.people.begin_sign_in(
            self._tenant_id(),
            state=_hash(state),
            binder=_hash(binder),
            nonce=nonce,
            verifier=verifier,
            return_to=return_to,
            seconds=SIGN_IN_SECONDS,
        )
        asked = {
            "response_type": "code",
            "client_id": self.settings.oidc_client_id,
            "redirect_uri": self.settings.oidc_redirect_url,
            "scope": self.settings.oidc_scopes,
            "state": state,
            "nonce": nonce,
            "code_challenge": base64.urlsafe_b64encode(_hash(verifier)).rstrip(b"=").decode(),
            "code_challenge_method": "S256",
        }
        joint = "&" if urlsplit(provider.authorization_endpoint).query else "?"
        return Begun(f"{provider.authorization_endpoint}{joint}{urlencode(asked)}", binder)

    def finish(self, given: Mapping[str, str], binder: str | None) -> tuple[Identity, str, UUID]:
        """Who came back, where they were going, and whose they are; raises Unauthenticated E-AUTH-09."""
        tenant_id = self._tenant_id()
        state = given.get("state", "")
        # taken before anything else is looked at: whatever follows, a state works once
        found = self.people.take_sign_in(tenant_id, state=_hash(state), binder=_hash(binder or ""))
        if found is None:
            raise _refused("the state is unknown, was used, is too old, or is another browser's")
        nonce, verifier, return_to = found
        provider = self._discovered()
        if given.get("iss", provider.issuer) != provider.issuer:
            raise _refused("another provider answered")
        if "error" in given or not given.get("code"):
            raise _refused("the provider signed nobody in")
        claims = self._claims(self._id_token(provider, given["code"], verifier), provider)
        _check(claims, provider.issuer, str(self.settings.oidc_client_id), nonce)
        return self._identity(claims, provider.issuer), return_to, tenant_id

    def _tenant_id(self) -> UUID:
        return self.keys.create_tenant(str(self.settings.oidc_tenant))

    def _identity(self, claims: Mapping[str, Any], issuer: str) -> Identity:
        listed = claims.get(self.settings.oidc_groups_claim, ())
        groups = {str(group) for group in ([listed] if isinstance(listed, str) else listed or ())}
        held = {role for group, role in self.settings.roles_by_group.items() if group in groups}
        role = next((role for role in reversed(ROLES) if role in held), self.settings.oidc_default_role)
        if role is None:
            raise NotAllowed(NO_ROLE, "none of your groups has a role here")
        named = _text(claims.get(self.settings.oidc_name_claim))
        email = _text(claims.get("email")) if claims.get("email_verified") is not False else None
        teams = self.settings.teams_by_group
        return Identity(
            name=handle_from(named, email),
            display_name=_text(claims.get("name")) or named or email or "somebody",
            role=role,
            email=email,
            issuer=issuer,
            subject=str(claims["sub"]),
            teams=tuple(handle_of(team, "oidc_teams") for group, team in teams.items() if group in groups),
            governed=tuple(dict.fromkeys(teams.values())),
        )

    def _id_token(self, provider: Provider, code: str, verifier: str) -> str:
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": str(self.settings.oidc_redirect_url),
            "client_id": str(self.settings.oidc_client_id),
            "code_verifier": verifier,
        }
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        if self.settings.oidc_client_secret is not None:
            secret = self.settings.oidc_client_secret.get_secret_value()
            pair = f"{quote_plus(form['client_id'])}:{quote_plus(secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        status, found = _fetched("POST", provider.token_endpoint, headers, urlencode(form).encode())
        if status >= 500:
            raise Unavailable(AWAY, f"the provider answered {status}")
        token = found.get("id_token")
        if status != 200 or not isinstance(token, str):
            raise _refused(f"the provider gave no identity for the code ({status})")
        return token

    def _claims(self, token: str, provider: Provider) -> Mapping[str, Any]:
        """The claims of a token that a key of the provider has signed."""
        for fresh in (False, True):
            try:
                decoded = jwt.decode(token, self._key_set(provider, fresh=fresh), algorithms=list(ALGORITHMS))
            except (JoseError, ValueError, TypeError, KeyError) as error:
                if fresh:  # a provider that changed its keys is asked once more
                    raise _refused(f"the identity token can't be verified: {type(error).__name__}") from None
                continue
            return decoded.claims
        raise AssertionError("the second look returns or raises")

    def _discovered(self) -> Provider:
        issuer = str(self.settings.oidc_issuer)
        with self._lock:
            if self._provider is not None and self._provider[0] > monotonic():
                return self._provider[1]
            status, found = _fetched("GET", issuer.rstrip("/") + "/.well-known/openid-configuration")
            names = ("issuer", "authorization_endpoint", "token_endpoint", "jwks_uri")
            if status != 200 or not all(isinstance(found.get(name), str) for name in names):
                raise Unavailable(AWAY, "the provider does not say what OpenID Connect asks for")
            provider = Provider(*(str(found[name]) for name in names))
            scheme = urlsplit(issuer).scheme
            places = (provider.authorization_endpoint, provider.token_endpoint, provider.jwks_uri)
            if provider.issuer != issuer or any(urlsplit(place).scheme != scheme for place in places):
                raise Unavailable(AWAY, "the provider says it is another one, or leaves TLS")
            self._provider = (monotonic() + DISCOVERED_SECONDS, provider)
            return provider

    def _key_set(self, provider: Provider, *, fresh: bool) -> KeySet:
        with self._lock:
            if self._jwks is not None:
                age = monotonic() - self._jwks[0]
                if age < KEYS_AGAIN_SECONDS or (not fresh and age < DISCOVERED_SECONDS):
                    return self._jwks[1]
            status, found = _fetched("GET", provider.jwks_uri)
            try:
                made = KeySet.import_key_set(found)  # type: ignore[arg-type]  # a mapping of anything: it checks itself
            except (JoseError, ValueError, TypeError, KeyError):
                raise Unavailable(AWAY, f"the provider's keys can't be read ({status})") from None
            self._jwks = (monotonic(), made)
            return made


def _check(claims: Mapping[str, Any], issuer: str, client_id: str, nonce: str) -> None:
    """Every claim that has to be there, and says what it has to say; else Unauthenticated E-AUTH-09."""
    now = utc_now().timestamp()
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    fits: dict[str, Callable[[], bool]] = {
        "iss": lambda: claims.get("iss") == issuer,
        "aud": lambda: client_id in audiences,
        "azp": lambda: claims.get("azp", client_id if len(audiences) == 1 else None) == client_id,
        "exp": lambda: _number(claims.get("exp")) > now - LEEWAY_SECONDS,
        "iat": lambda: now - SIGN_IN_SECONDS - LEEWAY_SECONDS < _number(claims.get("iat")) < now + LEEWAY_SECONDS,
        "nbf": lambda: "nbf" not in claims or _number(claims.get("nbf")) < now + LEEWAY_SECONDS,
        "nonce": lambda: secrets.compare_digest(str(claims.get("nonce", "")).encode(), nonce.encode()),
        "sub": lambda: isinstance(claims.get("sub"), str) and 0 < len(claims["sub"]) <= 255,
    }
    for name, holds in fits.items():
        if not holds():
            raise _refused(f"the claim {name} does not fit")


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else float("nan")


def _fetched(
    method: str, url: str, headers: Mapping[str, str] | None = None, body: bytes | None = None
) -> tuple[int, dict[str, Any]]:
    try:
        answer = request(
            method,
            url,
            rules=_ANYWHERE,
            headers=headers or {"Accept": "application/json"},
            body=body,
            seconds=ANSWER_SECONDS,
            most_bytes=ANSWER_BYTES,
        )
    except StanchionError as error:
        raise Unavailable(AWAY, "the provider does not answer", why=error.why or error.what) from None
    try:
        found = json.loads(answer.body)
    except ValueError:
        found = None
    return answer.status, found if isinstance(found, dict) else {}


def _text(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    kept = "".join(character for character in value if character.isprintable()).strip()[:200]
    return kept or None


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _refused(why: str) -> Unauthenticated:
    """One answer for everything that does not fit; what it was stands in the log."""
    log.warning("person.sign_in_refused", why=why)
    return Unauthenticated(REFUSED, "this sign-in can't be completed")
