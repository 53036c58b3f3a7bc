"""Authorities and certificates of loopback, made by openssl for one run."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

_KEY: Final = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
_NAMES: Final = "subjectAltName=IP:127.0.0.1,DNS:localhost"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate and its key, in PEM files."""

    certificate: Path
    key: Path

    def together(self) -> Path:
        """Both in one file, as Java reads them."""
        both = self.key.with_suffix(".both.pem")
        both.write_text(self.key.read_text() + self.certificate.read_text())
        return both


class Authority(Certificate):
    """An authority whose own certificate is what clients are to trust. Skips where there is no openssl."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        super().__init__(folder / f"{name}.pem", folder / f"{name}.key.pem")
        folder.mkdir(parents=True, exist_ok=True)
        self._make(name, made=self)

    def issue(self, name: str) -> Certificate:
        """A certificate for that name, of a server on loopback or of a client."""
        folder = self.certificate.parent
        made = Certificate(folder / f"{name}.pem", folder / f"{name}.key.pem")
        signed_by = ("-CA", str(self.certificate), "-CAkey", str(self.key))
        self._make(name, "-addext", _NAMES, "-addext", "basicConstraints=critical,CA:FALSE", *signed_by, made=made)
        return made

    def truststore(self, password: str) -> Path:
        """The certificate alone, in a store of Java's own."""
        store = self.certificate.with_suffix(".jks")
        stored = ("-keystore", str(store), "-storetype", "JKS", "-storepass", password)
        given = ("-alias", "authority", "-file", str(self.certificate))
        _run(["keytool", "-importcert", "-noprompt", *given, *stored])
        return store

    @staticmethod
    def _make(name: str, *more: str, made: Certificate) -> None:
        if shutil.which("openssl") is None:
            pytest.skip("no openssl to make certificates with")
        written = ("-keyout", str(made.key), "-out", str(made.certificate))
        _run(["openssl", "req", "-x509", *_KEY, "-days", "2", "-subj", f"/CN={name}", *more, *written])


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
