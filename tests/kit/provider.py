"""A small provider of OpenID Connect as a process of its own, which does wrong what it is told to do wrong.

`python -m kit.provider PORT`. `POST /script` sets how the next sign-ins go: claims to change, a key, an algorithm.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sys
import time
from typing import Any
from urllib.parse import parse_qs, urlencode

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse
from joserfc import jwt
from joserfc.jwk import KeySet, OctKey, RSAKey

CLIENT = "stanchion"
SECRET = "of the client"


def made_key(name: str) -> RSAKey:
    return RSAKey.generate_key(2048, parameters={"kid": name, "use": "sig", "alg": "RS256"})


def application(issuer: str) -> FastAPI:
    """The provider; everybody who comes is signed in at once, as the script says."""
    app = FastAPI()
    keys = {"current": made_key("k1"), "foreign": made_key("k1"), "next": made_key("k2")}
    published = [keys["current"]]
    codes: dict[str, dict[str, str]] = {}
    script: dict[str, Any] = {}

    @app.get("/.well-known/openid-configuration")
    def discovery() -> dict[str, Any]:
        names = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "jwks"}
        return {"issuer": issuer, **{name: f"{issuer}/{path}" for name, path in names.items()}}

    @app.get("/jwks")
    def jwks() -> dict[str, Any]:
        return dict(KeySet(list(published)).as_dict(private=False))

    @app.post("/script")
    async def write(request: Request) -> dict[str, Any]:
        script.clear()
        script.update(await request.json())
        if script.get("rotate"):
            published[:] = [keys["next"]]
        return script

    @app.get("/authorize")
    def authorize(request: Request) -> RedirectResponse:
        asked = dict(request.query_params)
        code = secrets.token_urlsafe(16)
        codes[code] = asked
        answer = {"code": code, "state": asked["state"], "iss": issuer, "session_state": "x"} | script.get("answer", {})
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode(answer)}", 302)

    @app.post("/token")
    async def token(request: Request) -> JSONResponse:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        authorization, redirect_uri = request.headers.get("authorization"), form["redirect_uri"]
        code_verifier, asked = form["code_verifier"], codes.pop(form["code"], None)
        login = base64.b64encode(f"{CLIENT}:{SECRET.replace(' ', '+')}".encode()).decode()
        challenge = base64.urlsafe_b64encode(hashlib.sha256(code_verifier.encode()).digest()).rstrip(b"=").decode()
        if asked is None or authorization != f"Basic {login}" or asked["redirect_uri"] != redirect_uri:
            return JSONResponse({"error": "invalid_grant"}, 400)
        if asked["code_challenge"] != challenge or asked["code_challenge_method"] != "S256":
            return JSONResponse({"error": "invalid_grant"}, 400)
        now = int(time.time())
        claims = {"iss": issuer, "aud": CLIENT, "sub": "s-1", "iat": now, "exp": now + 300, "nonce": asked["nonce"]}
        claims |= {"preferred_username": "Ana.Z", "name": "Ana Z", "email": "ana@example.org", "groups": ["eng"]}
        claims |= {name: now + value for name, value in script.get("times", {}).items()}
        claims |= script.get("claims", {})
        for name in script.get("without", []):
            claims.pop(name)
        return JSONResponse({"token_type": "Bearer", "access_token": "x", "id_token": signed(claims)})

    def signed(claims: dict[str, Any]) -> str:
        how = script.get("alg", "RS256")
        if how == "none":
            parts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."
        if how == "HS256":  # signed with what everybody can read, in the hope that it is taken for a shared secret
            public = keys["current"].as_pem(private=False)
            header = {"alg": "HS256", "kid": "k1"}
            mac = base64.urlsafe_b64encode(hashlib.sha256(public).digest()).rstrip(b"=").decode()
            key = OctKey.import_key({"kty": "oct", "k": mac})
            return jwt.encode(header, claims, key)
        key = keys["next" if script.get("rotate") else script.get("key", "current")]
        return jwt.encode({"alg": "RS256", "kid": key.kid}, claims, key)

    return app


if __name__ == "__main__":
    uvicorn.run(
        application(f"http://127.0.0.1:{sys.argv[1]}"), host="127.0.0.1", port=int(sys.argv[1]), log_level="error"
    )
