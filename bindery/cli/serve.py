"""`bindery serve`: the REST control plane as a process."""

from __future__ import annotations

import errno
import logging
import secrets
import socket
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from bindery.cli.options import DATA, found
from bindery.router.errors import InvalidInput
from bindery.router.spelling import nearest

#: The option and the advice for what keeps a socket from being bound.
_WHY_NOT: Final = {
    errno.EADDRINUSE: ("--port", "another process listens there: stop it, or name another port; 0 takes a free one"),
    errno.EACCES: ("--port", "ports below 1024 need a right (CAP_NET_BIND_SERVICE): name another one"),
}
#: Connections that wait while all others are served.
_BACKLOG = 2048

if TYPE_CHECKING:
    from bindery.api.settings import ConfiguredSettings, Settings

S = TypeVar("S", bound="ConfiguredSettings")


def serve(
    data: Annotated[
        str | None, typer.Option(help="The data directory, `data` unless told; created when missing.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A YAML file of settings; BINDERY_CONFIG without this option.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 15672 unless told; 0 takes a free one.")] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on, 127.0.0.1 unless told.")] = None,
    insecure: Annotated[
        bool | None, typer.Option("--insecure", help="Listen without TLS on an address that other machines reach.")
    ] = None,
    ssl_certfile: Annotated[Path | None, typer.Option(help="PEM certificate chain; turns TLS on.")] = None,
    ssl_keyfile: Annotated[Path | None, typer.Option(help="PEM private key of the certificate.")] = None,
    access_log: Annotated[bool | None, typer.Option("--access-log", help="Write a line per request.")] = None,
) -> None:
    """Run the REST control plane until it is stopped.

    The first administrator comes from BINDERY_ADMIN_USER and BINDERY_ADMIN_PASSWORD, or the file that
    BINDERY_ADMIN_PASSWORD_FILE names, while there is no user. Without them, and without any administrator
    yet, `admin` is created with a generated password that is shown here once.

    Every setting can also come from the environment (BINDERY_PORT) or from the YAML file (port); options
    come first, then the environment, then the file.
    """
    given = {
        "data": data,
        "port": port,
        "host": host,
        "insecure": insecure,
        "ssl_certfile": ssl_certfile,
        "ssl_keyfile": ssl_keyfile,
        "access_log": access_log,
    }
    # Imported here so that `bindery --help` does not wait for a web framework.
    from bindery.api.settings import Settings  # noqa: PLC0415

    settings = configured(Settings, config, {name: value for name, value in given.items() if value is not None})
    from bindery.api.app import create_app  # noqa: PLC0415
    from bindery.api.bootstrap import ensure_administrator  # noqa: PLC0415
    from bindery.jobs.control.logs import set_up  # noqa: PLC0415
    from bindery.store.access import AccessStore  # noqa: PLC0415
    from bindery.store.paths import DataDir  # noqa: PLC0415

    set_up(settings.log_format, access=settings.access_log)
    _check_certificate(settings)
    listener = _listen(settings)
    address = listener.getsockname()
    settings = settings.model_copy(update={"port": address[1]})
    access = AccessStore(DataDir.open(settings.data, create=True).access)
    generated = ensure_administrator(access, settings, generate=lambda: secrets.token_urlsafe(18))
    if generated is not None:
        typer.echo(f"created user admin with password {generated} (shown this once)")
    app = create_app(settings)
    app.state.plane.topology()  # a data directory that cannot be read is refused here, not at the first request
    listener.listen(_BACKLOG)
    scheme = "https" if settings.is_tls else "http"
    shown = f"[{settings.host}]" if ":" in settings.host else settings.host
    listening = f"listening on {scheme}://{shown}:{settings.port}"
    if settings.log_format == "text":
        typer.echo(listening)
    else:
        logging.getLogger("bindery.api").info("%s", listening)
    _run(app, settings, listener)


def configured(kind: type[S], config: Path | None, given: dict[str, Any]) -> S:
    """Settings of a file, the environment and what is given; raises InvalidInput naming the one that is wrong."""
    from pydantic import ValidationError  # noqa: PLC0415
    from pydantic_settings import SettingsError  # noqa: PLC0415
    from yaml import YAMLError  # noqa: PLC0415

    from bindery.api.settings import CONFIG_VARIABLE  # noqa: PLC0415

    try:
        return kind.configured(config, **given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        if first["loc"] == ("data",) and first["type"] == "missing":
            return configured(kind, config, {**given, "data": found(DATA)})
        name = ".".join(str(part) for part in first["loc"]) or None
        if first["type"] == "extra_forbidden":
            raise InvalidInput("unknown setting", where=name, hint=_meant(kind, first["loc"])) from None
        raise InvalidInput(first["msg"].removeprefix("Value error, "), where=name) from None
    except (OSError, ValueError, YAMLError, SettingsError) as error:
        raise InvalidInput(f"bad settings: {error}", where=f"--config or {CONFIG_VARIABLE}") from None


def _meant(kind: type[Any], path: tuple[int | str, ...]) -> str:
    """What a setting that is not known was meant to be, or what there is in its place."""
    for part in path[:-1]:
        kind = kind.model_fields[part].annotation
    near = nearest(str(path[-1]), kind.model_fields)
    return "settings: " + ", ".join(kind.model_fields) if near is None else f"did you mean {near!r}?"


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio sends small answers at once (TCP_NODELAY) on sockets that say that they are TCP, and on no others
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        listener.close()
        where, hint = _WHY_NOT.get(error.errno or 0, ("--host", "name an address of this machine"))
        raise InvalidInput(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}", where=where, hint=hint
        ) from None
    return listener


def _check_certificate(settings: Settings) -> None:
    """Raise InvalidInput unless the certificate and its key can be used; the server would say so in a traceback."""
    if settings.ssl_certfile is None or settings.ssl_keyfile is None:
        return
    for name, file in (("ssl_certfile", settings.ssl_certfile), ("ssl_keyfile", settings.ssl_keyfile)):
        try:
            file.read_bytes()
        except OSError as error:
            raise InvalidInput(f"cannot read {file}: {error.strerror}", where=name) from None
    try:
        # an empty password: without one a key that has one would ask for it on the terminal
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, "")
    except ssl.SSLError as error:
        raise InvalidInput(
            f"{settings.ssl_certfile} and {settings.ssl_keyfile} cannot be used: {error.reason or error}",
            where="ssl_certfile",
            hint="PEM files: the certificate with its chain, and its key without a password",
        ) from None


def _run(app: Any, settings: Settings, listener: socket.socket) -> None:
    import uvicorn  # noqa: PLC0415

    config = uvicorn.Config(
        app,
        log_config=None,
        log_level="warning",
        access_log=settings.access_log,
        ssl_certfile=None if settings.ssl_certfile is None else str(settings.ssl_certfile),
        ssl_keyfile=None if settings.ssl_keyfile is None else str(settings.ssl_keyfile),
        http="h11",
        h11_max_incomplete_event_size=settings.header_limit,
        server_header=False,
        timeout_graceful_shutdown=30,
        timeout_keep_alive=60,
        proxy_headers=bool(settings.trusted_proxies),
        forwarded_allow_ips=list(settings.trusted_proxies),
    )
    if settings.access_log:
        # its logger has got the level of the others, which keeps every line back
        logging.getLogger("uvicorn.access").setLevel(logging.INFO)
    uvicorn.Server(config).run(sockets=[listener])
