"""Settings of webhooks, which the services that make and that call them share."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import SecretStr, model_validator
from pydantic_settings import NoDecode

from stanchion.errors import Unprocessable
from stanchion.runtime.outside import Network, Rules, networks_of
from stanchion.runtime.settings import ServiceSettings

LOOPBACK = ("127.0.0.0/8", "::1/128")


class WebhookSettings(ServiceSettings):
    """Who signs the calls, and where they may go."""

    webhook_keys: SecretStr | None = None  # master keys, 32 bytes in base64, comma-separated; the first makes secrets
    webhook_networks: Annotated[tuple[str, ...] | None, NoDecode] = (
        None  # private networks that may be called too, without TLS as well; comma-separated; unset: loopback in dev
    )

    @property
    def webhook_masters(self) -> tuple[str, ...]:
        """The master keys as they were given."""
        text = self.webhook_keys.get_secret_value() if self.webhook_keys else ""
        return tuple(part.strip() for part in text.split(",") if part.strip())

    @property
    def webhook_rules(self) -> Rules:
        """Where calls may go."""
        if self.webhook_networks is None:
            return Rules(networks_of(LOOPBACK) if self.profile == "dev" else ())
        return Rules(networks_of(self.webhook_networks))

    @model_validator(mode="before")
    @classmethod
    def _networks(cls, values: dict[str, object]) -> dict[str, object]:
        if isinstance(text := values.get("webhook_networks"), str):
            values["webhook_networks"] = tuple(part.strip() for part in text.split(",") if part.strip())
        return values

    @model_validator(mode="after")
    def _networks_are_networks(self) -> Self:
        try:
            found: tuple[Network, ...] = networks_of(self.webhook_networks or ())
        except ValueError as error:
            raise Unprocessable(
                "E-CONF-02", f"webhook_networks: {error}", fix="name networks such as 10.0.0.0/8"
            ) from None
        assert len(found) == len(self.webhook_networks or ())
        return self
