"""What a service may change in the gateway's HAProxy configuration: TLS, API keys, conversations on one replica, connections to engines.

Each gives lines for its place in the configuration, or nothing where the spec does not ask for it.
"""

import math
from collections.abc import Sequence
from typing import Any

from mtpilot.api.gateway import Affinity
from mtpilot.api.hardware_class import HardwareClassSpec
from mtpilot.api.inference_service import InferenceServiceSpec

from .environment import KEEP_ALIVE_SECONDS, KEEP_ALIVE_VARIABLE
from .overlay_parts import engine_variables

KEYS_MAP_FILE = "keys.map"  # SHA-256 of an API key → its client; empty as a file, the agent fills it
KEYS_LOADED = "loaded"  # is in the map once the agent has filled it, even with nothing
CONVERSATION_HEADER = "x-mtpilot-conversation"
TLS_DIR_ENV = "MTPILOT_TLS_DIR"
CERTIFICATE_FILE, PRIVATE_KEY_FILE = "tls.crt", "tls.key"  # of a Secret of type kubernetes.io/tls
RETRY_AFTER_SECONDS = 5
_HTTP2_FLAG = "--enable-http2"


def error_body(kind: str, code: str, message: str) -> str:
    """OpenAI's error object; the text has no quote that HAProxy's single quotes could not hold."""
    return f'{{"error":{{"message":"{message}","type":"{kind}","param":null,"code":"{code}"}}}}'


def conversation_key(spec: InferenceServiceSpec) -> str:
    """Rules that name the conversation of a request; nothing where the spec keeps none together."""
    if spec.gateway.affinity is not Affinity.CONVERSATION:
        return ""
    missing = "if !{ var(txn.conversation) -m found }"
    return (
        "    # The header, else the user, else how the conversation begins: later turns begin as earlier ones did.\n"
        f"    http-request set-var(txn.conversation) req.hdr({CONVERSATION_HEADER})\n"
        f"    http-request set-var(txn.conversation) req.body,json_query('$.user') {missing}\n"
        "    http-request set-var(txn.first) req.body,json_query('$.messages[0].content'),bytes(0,256)\n"
        "    http-request set-var(txn.second) req.body,json_query('$.messages[1].content'),bytes(0,256)\n"
        "    http-request set-var(txn.first) req.body,json_query('$.prompt'),bytes(0,256) if !{ var(txn.first) -m found }\n"
        f"    http-request set-var(txn.conversation) var(txn.first),concat(,txn.second,),sha1,hex {missing}\n"
        "    http-request set-var(txn.place) var(txn.conversation),table_server_id(conversations)\n"
    )


def conversation_places(spec: InferenceServiceSpec, backend: str, servers: Sequence[str]) -> str:
    """Rules of a backend that take the place of last time while it has room; else the backend's own choice stands.

    servers: all of the backend's, in its order.
    """
    if spec.gateway.affinity is not Affinity.CONVERSATION:
        return ""
    # NB: a place is the server's number, from 1. A weight of 0 is the agent's word that a server drains, which HAProxy hides otherwise.
    rules = [
        f"    use-server {name} if {{ var(txn.place) -m int {number} }} {{ srv_weight({backend}/{name}) gt 0 }} "
        f"{{ srv_conn_free({backend}/{name}) gt 0 }}\n"
        for number, name in enumerate(servers, start=1)
    ]
    return "    stick store-request var(txn.conversation) table conversations if { var(txn.conversation) -m found }\n" + "".join(rules)


def conversation_table(spec: InferenceServiceSpec) -> str:
    if spec.gateway.affinity is not Affinity.CONVERSATION:
        return ""
    return "\nbackend conversations\n    stick-table type string len 128 size 100k expire 1h store server_id\n"


def engine_connections(spec: InferenceServiceSpec, hardware: HardwareClassSpec | None = None) -> str:
    """Whether connections to engines are used again.

    Only where no engine closes one by itself: a request that meets a closing engine is lost, or would have to be sent twice.
    """
    if _engines_outlast(spec, hardware):
        # A client's first request is sent only on a connection that has carried several, as HAProxy's "safe" has it.
        return "    # An engine never closes a connection first, see its SGLANG_TIMEOUT_KEEP_ALIVE.\n    http-reuse safe\n"
    return (
        "    # An engine may close a kept connection just as a request is sent on it, and such a request must not be repeated.\n"
        "    option http-server-close\n"
    )


def _engines_outlast(spec: InferenceServiceSpec, hardware: HardwareClassSpec | None) -> bool:
    set_in: list[tuple[Any, Any]] = [(variable.name, variable.value) for variable in spec.engine.env]
    set_in += [(variable.get("name"), variable.get("value")) for variable in engine_variables(spec.engine.pod_template)]
    chosen = [str(value) for name, value in set_in if name == KEEP_ALIVE_VARIABLE]
    long_enough = all(value.isascii() and value.isdecimal() and int(value) >= KEEP_ALIVE_SECONDS for value in chosen)
    # NB: another web server, of which it is not known whether it reads the variable.
    of_class = hardware.engine.args if hardware else ()
    return long_enough and not any(
        _HTTP2_FLAG in arguments for arguments in (of_class, spec.modes.mtp.extra_args, spec.modes.batch.extra_args)
    )


def tls(spec: InferenceServiceSpec) -> str:
    """What follows the frontend's address."""
    if spec.gateway.tls is None:
        return ""
    return f' ssl crt "${{{TLS_DIR_ENV}}}/{CERTIFICATE_FILE}" alpn h2,http/1.1'


def api_keys(spec: InferenceServiceSpec) -> str:
    """Rules that let only known keys pass, counted at this gateway; nothing where the spec asks for none."""
    keys = spec.gateway.api_keys
    if keys is None:
        return ""
    refuse = "    http-request return status {} content-type application/json string '{}'{}{}\n"
    unknown = error_body("invalid_request_error", "invalid_api_key", "This API key is not known here.")
    unready = error_body("server_error", "keys_not_loaded", "The gateway does not have its API keys yet.")
    retry = f" hdr Retry-After {RETRY_AFTER_SECONDS}"
    rules = (
        f"    # Only hashes of keys are here. The engine sees no client's key.\n"
        f"    http-request set-var(txn.api_key) http_auth_bearer,sha2(256),hex,lower\n"
        f"    http-request del-header authorization\n"
        f"    acl keys_loaded str({KEYS_LOADED}),map({KEYS_MAP_FILE}) -m found\n"
        f"    acl key_known var(txn.api_key),map({KEYS_MAP_FILE}) -m found\n"
        + refuse.format(503, unready, retry, " if !keys_loaded")
        + refuse.format(401, unknown, " hdr WWW-Authenticate Bearer", " if !key_known")
    )
    if keys.max_concurrent_requests is None:
        return rules
    share = math.ceil(keys.max_concurrent_requests / spec.gateway.replicas)
    too_many = error_body("rate_limit_error", "too_many_requests", "This API key has too many requests at a time.")
    return (
        f"{rules}    stick-table type string len 64 size 10k expire 1h store conn_cur\n"
        f"    http-request track-sc0 var(txn.api_key)\n" + refuse.format(429, too_many, retry, f" if {{ sc0_conn_cur gt {share} }}")
    )
