"""`mtpilot run`: the operator."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mtpilot.model.names import AGENT_IMAGE, HAPROXY_IMAGE

from . import exits

if TYPE_CHECKING:
    from mtpilot.adapters.prometheus_access import PrometheusAccess
    from mtpilot.controller.context import Options


def run(  # noqa: PLR0917 - the options of a command
    namespace: Annotated[list[str] | None, typer.Option("--namespace", "-n", help="Serve this namespace; may be repeated.")] = None,
    all_namespaces: Annotated[bool, typer.Option("--all-namespaces", "-A", help="Serve all namespaces.")] = False,
    prometheus_url: Annotated[
        str, typer.Option(envvar="MTPILOT_PROMETHEUS_URL", help="Prometheus that scrapes engines and gateways.")
    ] = "http://prometheus-operated.monitoring:9090",
    prometheus_token_file: Annotated[
        Path | None, typer.Option(help="File whose content is sent as a bearer token; read again for each query.")
    ] = None,
    prometheus_basic_auth: Annotated[
        Path | None, typer.Option(help="Folder with the files username and password, for basic authentication; read again for each query.")
    ] = None,
    prometheus_ca_file: Annotated[Path | None, typer.Option(help="PEM of the authority that signed its certificate.")] = None,
    scrape_interval: Annotated[float, typer.Option(min=0.1, help="Its scrape interval for them, in seconds.")] = 15.0,
    rate_window: Annotated[
        float, typer.Option(min=1.0, help="Rates are taken over this many seconds, and over 4 scrapes at least.")
    ] = 30.0,
    period: Annotated[float, typer.Option(min=0.2, help="Look at each service at least this often, in seconds.")] = 10.0,
    log_format: Annotated[str, typer.Option(help="json, or text for a person.")] = "json",
    log_level: Annotated[str, typer.Option(help="DEBUG, INFO, WARNING or ERROR.")] = "INFO",
    host: Annotated[str, typer.Option(help="Address of the two ports below.")] = "0.0.0.0",  # noqa: S104 - probes come from outside the pod
    liveness: Annotated[int | None, typer.Option(help="Port of /healthz, for the liveness probe.")] = None,
    metrics_port: Annotated[int | None, typer.Option(help="Port of /metrics of the operator itself.")] = None,
    agent_image: Annotated[str, typer.Option(help="Image of the agent in gateway pods: this package.")] = AGENT_IMAGE,
    haproxy_image: Annotated[str, typer.Option(help="Image of HAProxy in gateway pods.")] = HAPROXY_IMAGE,
    image_pull_secret: Annotated[
        list[str] | None, typer.Option(help="Secret in the services' namespaces that gateway pods pull their images with (repeatable).")
    ] = None,
) -> None:
    """Run the operator until it is told to stop. Access to the cluster: KUBECONFIG, or the pod's service account."""
    if bool(namespace) == all_namespaces:
        exits.leave("say which namespaces to serve: either -A, or -n NAMESPACE (repeatable)", exits.USAGE)
    exits.need_http("--prometheus-url", prometheus_url)
    if prometheus_token_file is not None and prometheus_basic_auth is not None:
        exits.leave("--prometheus-token-file and --prometheus-basic-auth exclude each other", exits.USAGE)
    _logs(log_format, log_level)
    from mtpilot.adapters.prometheus_access import PrometheusAccess
    from mtpilot.controller.context import Options
    from mtpilot.model.snapshot import GatewayImages

    options = Options(
        namespaces=tuple(namespace or ()),
        period_seconds=period,
        host=host,
        liveness_port=liveness,
        metrics_port=metrics_port,
        images=GatewayImages(haproxy=haproxy_image, agent=agent_image, pull_secrets=tuple(image_pull_secret or ())),
    )
    access = PrometheusAccess(token_file=prometheus_token_file, basic_auth=prometheus_basic_auth, ca_file=prometheus_ca_file)
    _operate(
        options, prometheus_url=prometheus_url, access=access, scrape_interval_seconds=scrape_interval, rate_window_seconds=rate_window
    )


def _logs(log_format: str, log_level: str) -> None:
    from mtpilot.telemetry.logs import LogFormat, configure_logs

    if log_format not in set(LogFormat) or log_level.upper() not in {"DEBUG", "INFO", "WARNING", "ERROR"}:
        wanted = "--log-format is json or text, --log-level DEBUG, INFO, WARNING or ERROR"
        exits.leave(f"{wanted}; not {log_format} with {log_level}", exits.USAGE)
    configure_logs(LogFormat(log_format), log_level.upper())


def _operate(
    options: "Options", *, prometheus_url: str, access: "PrometheusAccess", scrape_interval_seconds: float, rate_window_seconds: float
) -> None:
    from mtpilot.controller.operator import StartError, run_operator

    running = run_operator(
        options,
        prometheus_url=prometheus_url,
        scrape_interval_seconds=scrape_interval_seconds,
        rate_window_seconds=rate_window_seconds,
        prometheus_access=access,
    )
    try:
        asyncio.run(running)
    except StartError as error:
        exits.leave(str(error), exits.FAILED)
    except KeyboardInterrupt:
        return
