"""API keys: several, from a file or the environment, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Sequence
from pathlib import Path

from reflex.errors import AuthenticationError, ConfigError

ENV = "REFLEX_API_KEYS"


class Keys:
    """The keys a server knows. Without any, authentication is off and every header is ignored."""

    def __init__(self, keys: Sequence[str] = ()) -> None:
        self._digests = tuple(hashlib.sha256(key.encode()).digest() for key in keys)

    @classmethod
    def load(cls, file: str | None) -> Keys:
        """Keys of `file` (one a line, `#` comments) and of REFLEX_API_KEYS. Raises ConfigError."""
        keys = [key.strip() for key in os.environ.get(ENV, "").split(",") if key.strip()]
        if file is not None:
            path = Path(file).expanduser()
            try:
                lines = path.read_text().splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise ConfigError(f"serve.api_keys_file={file}: cannot be read ({error})") from None
            found = [key for line in lines if (key := line.strip()) and not key.startswith("#")]
            if not found:
                raise ConfigError(f"serve.api_keys_file={file}: holds no key")
            keys += found
        return cls(keys)

    def __bool__(self) -> bool:
        return bool(self._digests)

    def check(self, authorization: str | None) -> str | None:
        """A short name of the key used (for logs), None with authentication off.

        Raises AuthenticationError for a missing or unknown key.
        """
        if not self._digests:
            return None
        scheme, _, key = (authorization or "").partition(" ")
        if scheme.lower() != "bearer" or not key.strip():
            raise AuthenticationError("no API key: send `Authorization: Bearer <key>`")
        given = hashlib.sha256(key.strip().encode("utf-8", "surrogateescape")).digest()
        # Every digest is compared, whichever matches, so that timing tells nothing.
        matches = [hmac.compare_digest(given, known) for known in self._digests]
        if not any(matches):
            raise AuthenticationError("this API key is not known to the server")
        return given.hex()[:8]
