"""The gateway's HAProxy configuration.

Stock HAProxy does the routing; this file is its whole rule, and it never changes while replicas come and go: servers are
slots of a fixed pool that the agent fills through the runtime socket, so nothing but a change of the spec needs a reload.
"""

import math

from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec
from mtpilot.api.types import parse_duration
from mtpilot.model.names import GATEWAY_METRICS_PORT, GATEWAY_PORT

from .haproxy_options import (
    RETRY_AFTER_SECONDS,
    api_keys,
    conversation_key,
    conversation_places,
    conversation_table,
    engine_connections,
    error_body,
    tls,
)

BACKEND = "engines"
LANE = "mtp"  # where mtp replicas take requests up to their contention limit
AGAIN_SERVER = "again"
AGAIN_SOCKET_FILE = "again.sock"
MODES_MAP_FILE = "modes.map"  # server → mode; empty as a file, the agent fills it
HOLD_SERVER = "hold"
LEAVING_SERVER = "leaving/now"
SERVER_PREFIX = "r"
LEAST_POOL_SIZE = 16
RUN_DIR_ENV = "MTPILOT_RUN_DIR"
ADMIN_SOCKET_FILE = "admin.sock"
NOTHING_WAITS_FILE = "nothing-waits"  # beside the admin socket, see gateway/agent.py
CONFIG_FILE = "haproxy.cfg"
HEALTH_PATH = "/healthz"
USUAL_PATHS = ("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/v1/models")
REPLICA_HEADER = "x-mtpilot-replica"
MODE_HEADER = "x-mtpilot-mode"
REQUEST_ID_HEADER = "x-request-id"
PRIORITY_HEADER = "x-mtpilot-priority"
BATCH_CLASS = "batch"

# NB: HAProxy waits min(1 s, `timeout connect`) before it tries the same server again; a held request looks for a replica this often.
CONNECT_TIMEOUT_SECONDS = 0.5
# NB: two descriptors a request; containers and hosts give a process 20 000 at the least.
MAX_CONNECTIONS = 8000
STREAM_TIMEOUT = "24h"
MAX_BODY_BYTES = 10 * 2**20
REQUEST_TIMEOUT_SECONDS = 10  # for a request's header and the first 16 KiB of its body
CLIENT_TIMEOUT_SECONDS = 300  # for each further part of the body, and for a client to read what it is sent

_ERRORS = (
    (400, "invalid_request_error", "bad_request", "The request is not valid HTTP."),
    (408, "invalid_request_error", "request_timeout", "The request did not arrive in time."),
    (413, "invalid_request_error", "request_too_large", "The request is too large."),
    (500, "server_error", "internal_error", "The gateway failed."),
    (502, "server_error", "replica_failed", "The replica ended the connection before it answered."),
    (503, "server_error", "no_replica", "No replica could take the request within the queue time."),
    (504, "server_error", "replica_timeout", "The replica did not answer in time."),
)


def _http_errors() -> str:
    lines = []
    for status, kind, code, message in _ERRORS:
        retry = f" hdr Retry-After {RETRY_AFTER_SECONDS}" if status == 503 else ""
        lines.append(f"    http-error status {status} content-type application/json string '{error_body(kind, code, message)}'{retry}")
    return "\n".join(lines)


def queue_retries(queue_timeout_seconds: float) -> int:
    """Connection attempts that make a request without any replica wait as long as one in the queue."""
    return max(1, math.ceil(queue_timeout_seconds / CONNECT_TIMEOUT_SECONDS))


def pool_size(replicas: int) -> int:
    """Servers of the pool, and of the lane: a power of two that gives every replica a surge pod beside it.

    Both are walked through for each request and read by the agent each second, so a small service has small ones; in steps,
    since another size rolls the gateway.
    """
    return max(LEAST_POOL_SIZE, 1 << (2 * replicas - 1).bit_length())


def haproxy_config(service_name: str, spec: InferenceServiceSpec, hardware: HardwareClassSpec | None = None) -> str:
    """The text of haproxy.cfg, for HAProxy 2.8 and later. Of the hardware class only the engines' arguments matter.

    Every path and address comes from the environment: MTPILOT_RUN_DIR (directory of the admin socket), POD_IP and, with TLS,
    MTPILOT_TLS_DIR (of certificate and key).
    """
    queue_seconds = parse_duration(spec.gateway.queue_timeout).total_seconds()
    servers = [f"{SERVER_PREFIX}{number}" for number in range(pool_size(spec.replicas))]
    return _TEMPLATE.format(
        service=service_name,
        queue_ms=max(1, round(queue_seconds * 1000)),
        connect_ms=round(CONNECT_TIMEOUT_SECONDS * 1000),
        retries=queue_retries(queue_seconds),
        errors=_http_errors(),
        not_found=error_body("invalid_request_error", "not_found", "Only /v1/ is served here."),
        max_connections=MAX_CONNECTIONS,
        stream_timeout=STREAM_TIMEOUT,
        request_timeout=REQUEST_TIMEOUT_SECONDS,
        client_timeout=CLIENT_TIMEOUT_SECONDS,
        max_body=MAX_BODY_BYTES,
        too_large=error_body("invalid_request_error", "request_too_large", f"A request has at most {MAX_BODY_BYTES} bytes."),
        no_length=error_body("invalid_request_error", "length_required", "A request with a body needs Content-Length."),
        queue_full=error_body("rate_limit_error", "queue_full", "Too many requests wait already."),
        refused="full || low_full low || held none || low_held low none",
        priority_header=PRIORITY_HEADER,
        batch_class=BATCH_CLASS,
        engine_connections=engine_connections(spec, hardware),
        tls=tls(spec),
        conversation_key=conversation_key(spec),
        conversation_lane=conversation_places(spec, LANE, servers),
        conversation_pool=conversation_places(spec, BACKEND, servers),
        conversation_table=conversation_table(spec),
        api_keys=api_keys(spec),
        queue_length=spec.gateway.queue_length,
        batch_queue_length=spec.gateway.batch_queue_length,
        shorter_queue_length=min(spec.gateway.queue_length, spec.gateway.batch_queue_length),
        retry_after=RETRY_AFTER_SECONDS,
        run_dir=RUN_DIR_ENV,
        admin_socket=ADMIN_SOCKET_FILE,
        port=GATEWAY_PORT,
        metrics_port=GATEWAY_METRICS_PORT,
        health_path=HEALTH_PATH,
        usual_paths=" ".join(USUAL_PATHS),
        backend=BACKEND,
        replica_header=REPLICA_HEADER,
        mode_header=MODE_HEADER,
        request_id=REQUEST_ID_HEADER,
        lane=LANE,
        again=AGAIN_SERVER,
        again_socket=AGAIN_SOCKET_FILE,
        modes_map=MODES_MAP_FILE,
        prefix=SERVER_PREFIX,
        last_server=len(servers) - 1,
        hold=HOLD_SERVER,
    )


_TEMPLATE = """\
# Gateway of InferenceService {service}. Rendered by mtpilot: a change here is overwritten.
global
    maxconn {max_connections}
    # One thread: between the look at the lane's free places and the taking of one nothing else can happen.
    nbthread 1
    default-path config
    # A soft stop or a reload closes no idle connection, on which a client may be sending just then: it closes with its next answer.
    close-spread-time infinite
    # The key of tls.crt is in tls.key.
    ssl-load-extra-del-ext
    ssl-default-bind-options ssl-min-ver TLSv1.2
    log stdout format raw daemon
    stats socket "${{{run_dir}}}/{admin_socket}" mode 600 level admin expose-fd listeners

defaults
    mode http
    log global
    option httplog
    option dontlog-normal
    # A client that has left frees its place in the queue and its slot in the engine.
    option abortonclose
    # Small events of a stream go out at once.
    option http-no-delay
{engine_connections}    option clitcpka
    option srvtcpka
    # Tried again only where no connection came about, so no engine has seen the request; each time on another server.
    retry-on conn-failure
    retries {retries}
    option redispatch 1
    timeout connect {connect_ms}ms
    timeout queue {queue_ms}ms
    timeout http-request {request_timeout}s
    timeout http-keep-alive 100s
    timeout client {client_timeout}s
    timeout client-fin 30s
    timeout server {stream_timeout}
    timeout check 2s
    # Finds a host that is gone before the API server says so; whether an engine may serve is the agent's to say.
    default-server check inter 2s fall 2 rise 1
{errors}

frontend openai
    bind "${{POD_IP}}:{port}"{tls}
    monitor-uri {health_path}
    # Made of the session and a count of this process: a UUID for each request is far dearer.
    tcp-request session set-var(sess.id) uuid,bytes(24,12)
    unique-id-format "%[var(sess.id)]-%rt"
    # An id that is no plain word is replaced: it goes into logs and other systems.
    http-request set-var(txn.request_id) req.fhdr({request_id})
    acl plain_id var(txn.request_id) -m reg ^[A-Za-z0-9._:-]{{1,128}}$
    http-request set-header {request_id} %[unique-id] if !plain_id
    http-request set-header {request_id} %[var(txn.request_id)] if plain_id {{ req.fhdr_cnt({request_id}) gt 1 }}
    http-after-response set-header {request_id} %[unique-id]
    http-after-response set-header {request_id} %[var(txn.request_id)] if plain_id
    # The paths that nearly all requests have need no second look.
    acl usual path {usual_paths}
    acl api path_beg /v1/
    acl climbs path,url_dec -m sub /../
    http-request return status 404 content-type application/json string '{not_found}' if !usual !api || !usual climbs
{api_keys}    # A body without a length could not be bounded, and where two servers may disagree on its end a request can be smuggled.
    acl length req.hdr(content-length) -m found
    acl has_body req.hdr(transfer-encoding) -m found
    acl has_body method POST PUT PATCH
    # Of 64 bits with a sign, so that the largest lengths are below 0.
    acl fits req.body_size 0:{max_body}
    http-request return status 411 content-type application/json string '{no_length}' if !length has_body
    http-request return status 413 content-type application/json string '{too_large}' if !fits
    # No engine slot for a client that sends its request byte by byte.
    http-request wait-for-body time {request_timeout}s
{conversation_key}\
    # While this gateway is being ended kept connections close with their next answer, and their clients connect to another one.
    http-after-response set-header connection close if {{ nbsrv(leaving) gt 0 }}
    # An mtp replica takes a request while it has fewer than its limit; no request waits there.
    acl room be_conn_free({lane}) gt 0
    use_backend {lane} if room
    default_backend {backend}

backend {lane}
    balance leastconn
    # What comes back by that way has its headers.
    http-response allow if {{ srv_name {again} }}
    http-response add-header {replica_header} %s
    http-response add-header {mode_header} {lane}
{conversation_lane}    server-template {prefix} 0-{last_server} 127.0.0.1:1 disabled
    # Whose replica left before it could be reached starts anew below, where all replicas are and where requests can wait.
    server {again} "unix@${{{run_dir}}}/{again_socket}" backup no-check pool-max-conn 0

frontend {again}
    bind "unix@${{{run_dir}}}/{again_socket}" mode 600
    default_backend {backend}

backend {backend}
    # Two classes: who waits as "batch" waits behind all others, and is refused at a shorter queue.
    acl low req.hdr({priority_header}) -i {batch_class}
    # The connections of a backend are what waits and what runs, this request as well.
    acl busy be_conn({backend}) gt {shorter_queue_length}
    http-request allow if !low !busy
    http-request set-priority-class int(1) if low
    # By its niceness the agent knows a waiting request's class: HAProxy tells nothing else of it.
    http-request set-nice 1 if low
    acl none be_conn_free({backend}) lt 0
    acl full queue({backend}) ge {queue_length}
    acl low_full queue({backend}) ge {batch_queue_length}
    acl held be_conn({backend}) gt {queue_length}
    acl low_held be_conn({backend}) gt {batch_queue_length}
    http-request return status 429 content-type application/json string '{queue_full}' hdr Retry-After {retry_after} if {refused}
    # By requests in flight against weight; the weights stand as the slots do.
    balance leastconn
    http-response add-header {replica_header} %s
    http-response add-header {mode_header} "%[srv_name,map({modes_map})]" if {{ srv_name,map({modes_map}) -m found }}
{conversation_pool}    server-template {prefix} 0-{last_server} 127.0.0.1:1 disabled
    # Nothing listens there: while no replica is usable a request waits here, and looks for one at each of its retries.
    server {hold} 127.0.0.1:1 backup no-check
{conversation_table}
backend leaving
    # A switch, not a destination: the agent sets it ready when the pod is being ended.
    server now 127.0.0.1:1 disabled no-check

frontend metrics
    bind "${{POD_IP}}:{metrics_port}"
    # A scraper's idle connection must not hold a HAProxy that is to end.
    option httpclose
    http-request return status 404 content-type text/plain string "not found" if !{{ path /metrics }}
    http-request set-query "scope=global&scope=frontend&scope=backend&scope=server&no-maint"
    http-request use-service prometheus-exporter
"""
