"""Every flag of SGLang 0.5.23 with its other spellings and the number of values it takes.

A misspelt flag costs a start of minutes and a rollback, and argparse's abbreviations make some of them work by accident.
With the list at hand the operator says it at once. From a dump of the parser of the sglang 0.5.23 wheel (Apache-2.0), the
same as images/sglang-sim/src/sglang_sim/data/flags.json; a contract test holds the two equal.
"""

from collections.abc import Mapping
from dataclasses import dataclass

SGLANG_VERSION = "0.5.23"


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """`name` is the first spelling. `values`: "0", "1", "?" (0 or 1), "*" (0 or more), "+" (1 or more)."""

    name: str
    values: str

    def accepts(self, count: int) -> bool:
        """Whether the flag may be followed by `count` values."""
        return {"0": count == 0, "1": count == 1, "?": count <= 1, "*": True, "+": count >= 1}[self.values]


# SPELLING[=SPELLING…]:VALUES
_FLAGS = """
--abort-on-priority-when-disabled:0 --admin-api-key:1 --allow-auto-truncate:0 --allowed-media-domains:+ --api-key:1
--asr-max-buffer-seconds:1 --asr-max-concurrent-sessions:1 --attention-backend:1 --attn-cp-size=--attention-context-parallel-size:1
--attn-dp-size=--attention-data-parallel-size:1 --base-gpu-id:1 --batch-notify-size:1 --bf16-gemm-backend:1 --boundary-reduction:1
--bucket-e2e-request-latency:+ --bucket-inter-token-latency:+ --bucket-time-to-first-token:+ --c128-page-size:1 --chat-template:1
--checkpoint-engine-wait-weights-before-ready:0 --chunked-prefill-size:1 --completion-template:1 --config:1
--constrained-json-disable-any-whitespace:0 --constrained-json-max-whitespace-cnt:1 --constrained-json-whitespace-pattern:1
--context-length:1 --cp-strategy:1 --cpu-offload-gb:1 --crash-dump-folder:1 --cuda-graph-backend-decode:1 --cuda-graph-backend-prefill:1
--cuda-graph-bs-decode:+ --cuda-graph-bs-prefill:+ --cuda-graph-config:1 --cuda-graph-max-bs-decode:1 --cuda-graph-max-bs-prefill:1
--cuda-graph-max-seq-len-prefill:1 --cuda-graph-prefill-max-context=--context-bucket:1 --custom-weight-loader:* --dcp-comm-backend:1
--dcp-replicate-q-proj=--no-dcp-replicate-q-proj:0 --dcp-size=--decode-context-parallel-size:1 --debug-cuda-graph:0
--debug-tensor-dump-input-file:1 --debug-tensor-dump-layers:+ --debug-tensor-dump-output-folder:1 --decode-attention-backend:1
--decode-log-interval:1 --decoupled-spec-bind-endpoint:1 --decoupled-spec-connect-endpoints:1 --decoupled-spec-rank:1
--decoupled-spec-role:1 --decrypted-config-file:1 --decrypted-draft-config-file:1 --deepep-config:1 --deepep-dispatcher-output-dtype:1
--deepep-mode:1 --deepep-v2-mode:1 --default-chat-template-kwargs:1 --default-priority-value:1 --delete-ckpt-after-loading:0
--detokenizer-worker-num:1 --device:1 --disable-aiter-allreduce-fusion-in-decode:0 --disable-aiter-allreduce-fusion-in-prefill:0
--disable-attn-tp-gather:0 --disable-chunked-prefix-cache:0 --disable-cuda-graph-padding:0 --disable-cuda-graph:0
--disable-custom-all-reduce:0 --disable-decode-cuda-graph:0 --disable-fast-image-processor:0 --disable-flashinfer-autotune:0
--disable-flashinfer-cutlass-moe-fp4-allgather:0 --disable-hybrid-swa-memory:0 --disable-outlines-disk-cache:0
--disable-overlap-schedule:0 --disable-prefill-cuda-graph:0 --disable-priority-preemption:0 --disable-radix-cache:0
--disable-shared-experts-fusion:0 --disable-tokenizer-batch-decode:0 --disaggregation-bootstrap-port:1
--disaggregation-decode-allocation-policy:1 --disaggregation-decode-enable-offload-kvcache:0 --disaggregation-decode-enable-radix-cache:0
--disaggregation-decode-extra-slots:1 --disaggregation-decode-host-receive-threshold:1 --disaggregation-decode-polling-interval:1
--disaggregation-decode-retraction-backup:1 --disaggregation-enable-kv-checksum:0 --disaggregation-ib-device:1 --disaggregation-mode:1
--disaggregation-transfer-backend:1 --dist-init-addr=--nccl-init-addr:1 --dist-timeout:1 --dllm-algorithm-config:1 --dllm-algorithm:1
--dllm-fdfo=--no-dllm-fdfo:0 --download-dir:1 --dp-size=--data-parallel-size:1 --dsa-decode-backend:1 --dsa-paged-mqa-logits-backend:1
--dsa-prefill-backend:1 --dsa-topk-backend:1 --dsa-triton-union:1 --dsv4-attn-backend:1 --dsv4-prefill-backend:1 --dtype:1 --dwdp-size:1
--dynamic-batch-tokenizer-batch-size:1 --dynamic-batch-tokenizer-batch-timeout:1 --elastic-ep-backend:1 --elastic-ep-initial-size:1
--elastic-ep-join-mode:1 --elastic-ep-join-rank-offset:1 --elastic-ep-scale-timeout:1 --enable-adaptive-dispatch-to-encoder:0
--enable-aiter-allreduce-fusion:0 --enable-amd-monokernel:0 --enable-attn-tp-input-scattered:0 --enable-broadcast-mm-inputs-process:0
--enable-cache-report:0 --enable-cp-decode-attn-tp:0 --enable-cudagraph-gc:0 --enable-custom-logit-processor:0
--enable-decoder-swa-bounded-replay=--no-enable-decoder-swa-bounded-replay:0 --enable-deepseek-v4-fp4-indexer:0
--enable-dense-mlp-attn-tp:0 --enable-deterministic-inference:0 --enable-dp-attention-local-control-broadcast:0 --enable-dp-attention:0
--enable-dp-lm-head:0 --enable-draft-weights-cpu-backup:0 --enable-dsa-cache-layer-split:0
--enable-dsa-fused-indexer=--no-enable-dsa-fused-indexer:0 --enable-dynamic-batch-tokenizer:0 --enable-dynamic-chunking:0
--enable-elastic-expert-backup:0 --enable-encoder-swa-bounded-replay:0 --enable-eplb:0 --enable-flashinfer-allreduce-fusion:0
--enable-flexkv:0 --enable-forward-pass-metrics:0 --enable-fp32-lm-head:0 --enable-fused-moe-sum-all-reduce:0
--enable-fused-qk-norm-rope=--no-enable-fused-qk-norm-rope:0 --enable-hierarchical-cache=--enable-hicache:0 --enable-hisparse:0
--enable-http-worker-reuseport:0 --enable-http2:0 --enable-int8-mamba-checkpoint:0 --enable-kv-cache-sharding:0 --enable-layernorm-sp:0
--enable-layerwise-nvtx-marker:0 --enable-lean-attention:0 --enable-linear-replayssm-spec:0 --enable-linear-replayssm:0
--enable-linker-mla-dedup:0 --enable-lmcache:0 --enable-lora-overlap-loading:0 --enable-lora:0 --enable-mamba-cache-stochastic-rounding:0
--enable-megamoe-for-layernorm-sp:0 --enable-memory-saver:0 --enable-metrics-for-all-schedulers:0 --enable-metrics:0
--enable-mfu-metrics:0 --enable-mis:0 --enable-mixed-chunk:0 --enable-mm-global-cache:0 --enable-mscclpp:0 --enable-multi-layer-eagle:0
--enable-multimodal:0 --enable-nccl-nvls:0 --enable-nvidia-megakernel:0 --enable-p2p-check:0 --enable-page-major-kv-layout:0
--enable-paged-experts:0 --enable-pd-role-switch:0 --enable-pdmux:0 --enable-precise-embedding-interpolation:0 --enable-prefill-cp:0
--enable-prefill-delayer:0 --enable-prefix-mm-cache:0 --enable-priority-scheduling:0 --enable-profile-cuda-graph:0
--enable-quant-communications:0 --enable-request-time-stats-logging:0 --enable-response-store:0 --enable-return-aux-hidden-states:0
--enable-return-hidden-states:0 --enable-return-indexer-topk:0 --enable-return-routed-experts:0 --enable-scattered-sconv:0
--enable-session-radix-cache:0 --enable-shared-experts-attn-tp:0 --enable-single-batch-overlap:0 --enable-ssl-refresh:0
--enable-streaming-session:0 --enable-strict-thinking:0 --enable-symm-mem:0 --enable-tf32-matmul=--no-enable-tf32-matmul:0
--enable-tokenizer-batch-encode:0 --enable-torch-compile-debug-mode:0 --enable-torch-compile:0 --enable-torch-symm-mem:0
--enable-tp-lm-head-all-to-all=--no-enable-tp-lm-head-all-to-all:0 --enable-trace:0 --enable-two-batch-overlap:0
--enable-unified-cache-external-linker:0 --enable-unified-memory:0 --enable-w4a4-mxfp4-megamoe:0 --enable-waterfill:0 --enable-watermark:0
--enable-weights-cpu-backup:0 --encoder-bootstrap-port:1 --encoder-only:0 --encoder-register-urls:+ --encoder-transfer-backend:1
--encoder-urls:+ --enforce-disable-flashinfer-allreduce-fusion:0 --enforce-shared-experts-fusion:0 --engine-info-bootstrap-port:1
--ep-dispatch-algorithm:1 --ep-num-redundant-experts:1 --ep-size=--expert-parallel-size=--ep:1 --eplb-algorithm:1
--eplb-min-rebalancing-utilization-threshold:1 --eplb-rebalance-layers-per-chunk:1 --eplb-rebalance-num-iterations:1
--expert-balancedness-report-mode:1 --expert-distribution-recorder-buffer-size:1 --expert-distribution-recorder-mode:1
--experts-shared-outer-loras=--no-experts-shared-outer-loras:0 --export-metrics-to-file-dir:1 --export-metrics-to-file:0
--extra-metric-labels:1 --fastapi-root-path:1 --file-storage-path:1 --flashinfer-a2a-dispatch-type:1
--flashinfer-allreduce-fusion-backend:1 --flashinfer-autotune-skip-ops:+ --flashinfer-mla-disable-ragged:0
--flashinfer-mxfp4-moe-precision:1 --flexkv-config-file:1 --forward-hooks:1 --forward-pass-metrics-ipc-name:1
--forward-pass-metrics-worker-id:1 --fp4-gemm-backend:1 --fp8-gemm-backend:1 --fuseep-mode:1 --gated-launch-port:1 --gc-threshold:+
--gc-warning-threshold-secs:1 --generation-tokens-buckets:+ --gpu-id-step:1 --grammar-backend:1 --grpc-mode:0 --grpc-port:1
--grpc-response-timeout-secs:1 --hf-chat-template-name:1 --hicache-host-memory-fraction:1 --hicache-host-memory-mode:1
--hicache-io-backend:1 --hicache-mem-layout:1 --hicache-ratio:1 --hicache-size:1 --hicache-storage-backend-extra-config:1
--hicache-storage-backend:1 --hicache-storage-prefetch-policy:1 --hicache-storage-prefetch-retry-max-attempts:1
--hicache-storage-prefetch-retry-poll-interval:1 --hicache-write-policy:1 --hisparse-config=--hierarchical-sparse-attention-extra-config:1
--host:1 --http2-initial-connection-window-size:1 --http2-max-concurrent-streams:1 --image-processor-backend:1
--incremental-streaming-output:0 --init-expert-location:1 --int8-mamba-ckpt-size:1 --is-embedding:0 --json-model-override-args:1
--kt-cpuinfer:1 --kt-max-deferred-experts-per-token:1 --kt-method:1 --kt-num-gpu-experts:1 --kt-threadpool-count:1 --kt-weight-path:1
--kv-cache-dtype:1 --kv-canary-real-data:1 --kv-canary-sweep-interval:1 --kv-canary:1 --kv-events-config:1 --language-model-only:0
--language-only:0 --limit-mm-data-per-request:1 --linear-attn-backend:1 --linear-attn-decode-backend:1 --linear-attn-prefill-backend:1
--linear-attn-verify-backend:1 --linear-replayssm-cache-len:1 --lmcache-config-file:1 --load-balance-method:1 --load-format:1
--load-publish-endpoint:1 --load-snapshot-publish-interval:1 --log-level-http:1 --log-level:1 --log-requests-format:1
--log-requests-level:1 --log-requests-target:+ --log-requests:0 --lora-backend:1 --lora-drain-wait-threshold:1 --lora-eviction-policy:1
--lora-paths:* --lora-strict-loading=--no-lora-strict-loading:0 --lora-target-modules:* --lora-use-virtual-experts:0 --mamba-backend:1
--mamba-cache-philox-rounds:1 --mamba-full-memory-ratio:1 --mamba-max-states-per-path:1 --mamba-radix-cache-strategy:1 --mamba-ssm-dtype:1
--mamba-track-interval:1 --max-ep-size:1 --max-loaded-loras:1 --max-lora-chunk-size:1 --max-lora-rank:1 --max-loras-per-batch:1
--max-mamba-cache-size:1 --max-prefill-tokens:1 --max-queued-requests:1 --max-running-requests:1 --max-total-tokens:1
--media-url-max-file-size-mb:1 --mem-fraction-static:1 --min-free-slots-delay:1 --mlx-enable-sampling:0 --mm-attention-backend:1
--mm-enable-dp-encoder=--no-mm-enable-dp-encoder:0 --mm-feature-transport:1 --mm-global-cache-backend:1 --mm-io-worker-num:1
--mm-preprocess-cache-size-mb:1 --mm-process-config:1 --mm-processor-worker-num:1 --model-checksum:? --model-config-parser:1
--model-impl:1 --model-loader-extra-config:1 --model-path=--model:1 --modelexpress-config:1 --modelopt-checkpoint-restore-path:1
--modelopt-checkpoint-save-path:1 --modelopt-export-path:1 --modelopt-quant:1 --moe-a2a-backend:1 --moe-dense-tp-size:1
--moe-dp-size=--moe-data-parallel-size:1 --moe-runner-backend:1 --monokernel-backend:1 --mooncake-ib-device:1 --msprobe-dump-config:1
--nccl-port:1 --nnodes:1 --node-rank:1 --num-continuous-decode-steps:1 --num-reserved-decode-tokens:1 --numa-node:+ --offload-group-size:1
--offload-mode:1 --offload-num-in-group:1 --offload-prefetch-step:1 --optimistic-prefill-attempts:1 --otlp-service-name:1
--otlp-traces-endpoint:1 --page-size:1 --paged-experts-num-resident:1 --pdmux-config-path:1 --ple-offload-backend:1 --ple-offload-dir:1
--ple-offload-embedding=--no-ple-offload-embedding:0 --port:1 --pp-async-batch-depth:1 --pp-max-micro-batch-size:1
--pp-size=--pipeline-parallel-size:1 --pre-warm-nccl:0 --preferred-sampling-params:1 --prefill-attention-backend:1
--prefill-decode-interval-min-bs:1 --prefill-decode-interval:1 --prefill-delayer-forward-passes-buckets:+ --prefill-delayer-max-delay-ms:1
--prefill-delayer-max-delay-passes:1 --prefill-delayer-queue-min-ratio:1 --prefill-delayer-token-usage-low-watermark:1
--prefill-delayer-wait-seconds-buckets:+ --prefill-kv-cache-dequant-dtype:1 --prefill-max-requests:1 --prefill-only-disable-kv-cache:0
--priority-scheduling-preemption-threshold:1 --prompt-tokens-buckets:+ --qsa-indexer-dtype:1 --quantization-param-path:1 --quantization:1
--quantize-and-serve:0 --radix-cache-backend:1 --radix-eviction-policy-config:1 --radix-eviction-policy:1 --random-seed:1
--reasoning-parser:1 --remote-instance-weight-loader-backend:1 --remote-instance-weight-loader-seed-instance-ip:1
--remote-instance-weight-loader-seed-instance-service-port:1 --remote-instance-weight-loader-send-weights-group-ports:1
--remote-instance-weight-loader-start-seed-via-transfer-engine:0 --retraction-policy:1 --return-aux-hidden-state-layer-ids:+
--return-hidden-states-mode:1 --return-input-ids:0 --return-output-ids:0 --revision:1 --rl-on-policy-target:1 --rl-quant-profile:1
--sampling-backend:1 --sampling-defaults:1 --sampling-mask-max-tokens:1 --schedule-conservativeness:1
--schedule-low-priority-values-first:0 --schedule-policy:1 --scheduler-recv-interval:1 --served-model-name:1 --shared-experts-tp-size:1
--show-time-cost:0 --sidecar-args:1 --sidecar:1 --skip-server-warmup:0 --skip-tokenizer-init:0 --sleep-on-idle:0 --sm-group-num:1
--smg-grpc-mode:0 --smg-http-sidecar-port=--grpc-http-sidecar-port:1 --soft-watchdog-timeout:1 --spec-trace-dir:1
--speculative-accept-threshold-acc:1 --speculative-accept-threshold-single:1 --speculative-adaptive-config:1 --speculative-adaptive:0
--speculative-algorithm:1 --speculative-attention-mode:1 --speculative-dflash-block-size:1 --speculative-domino-candidate-pool-size:1
--speculative-draft-attention-backend:1 --speculative-draft-kv-cache-dtype:1 --speculative-draft-load-format:1
--speculative-draft-model-path=--speculative-draft-model:1 --speculative-draft-model-quantization:1 --speculative-draft-model-revision:1
--speculative-draft-sink-size:1 --speculative-draft-window-size:1 --speculative-dsa-topk-backend:1
--speculative-dspark-align-verify-tokens-to-graph-tier:0 --speculative-dspark-block-size:1 --speculative-dspark-confidence-sts-path:1
--speculative-dspark-sps-table-path:1 --speculative-eagle-topk:1
--speculative-enable-w4a4-mxfp4-megamoe=--no-speculative-enable-w4a4-mxfp4-megamoe:0 --speculative-moe-a2a-backend:1
--speculative-moe-runner-backend:1 --speculative-ngram-capacity:1 --speculative-ngram-external-corpus-max-tokens:1
--speculative-ngram-external-corpus-path:1 --speculative-ngram-external-sam-budget:1 --speculative-ngram-match-type:1
--speculative-ngram-max-bfs-breadth:1 --speculative-ngram-max-trie-depth:1 --speculative-ngram-min-bfs-breadth:1
--speculative-num-draft-tokens:1 --speculative-num-steps:1 --speculative-token-map:1 --speculative-use-block-verification:0
--speculative-use-rejection-sampling:0 --ssl-ca-certs:1 --ssl-certfile:1 --ssl-keyfile-password:1 --ssl-keyfile:1
--startup-weight-load-mode:1 --stream-interval:1 --stream-response-default-include-usage:0 --strip-thinking-cache:0
--swa-full-tokens-ratio:1 --swa-prefix-tails:1 --tbo-token-distribution-threshold:1 --tokenizer-backend:1
--tokenizer-metrics-allowed-custom-labels:+ --tokenizer-metrics-custom-labels-header:1 --tokenizer-mode:1 --tokenizer-path:1
--tokenizer-worker-num:1 --tool-call-parser:1 --tool-server:1 --torch-compile-max-bs:1 --tp-size=--tensor-parallel-size:1
--trace-modules:1 --triton-attention-num-kv-splits:1 --triton-attention-reduce-in-fp32:0 --triton-attention-split-tile-size:1
--trust-mm-content-hashes:0 --trust-remote-code:0 --trust-request-chat-template:0 --unified-cache-external-linker-backend:1
--unified-cache-external-linker-config:1 --uno-lora-path:1 --use-ray:0 --uvicorn-access-log-exclude-prefixes:* --warmups:1
--watchdog-timeout:1 --watermark-config:1 --weight-cache-mode:1 --weight-cache-socket:1 --weight-cache-timeout:1
--weight-loader-disable-mmap:0 --weight-loader-drop-cache-after-load:0 --weight-loader-prefetch-checkpoints:0
--weight-loader-prefetch-num-threads:1 --weight-version:1
"""


def _parse(text: str) -> dict[str, Flag]:
    flags: dict[str, Flag] = {}
    for word in text.split():
        spellings, _, values = word.partition(":")
        names = spellings.split("=")
        flags.update(dict.fromkeys(names, Flag(name=names[0], values=values)))
    return flags


KNOWN_FLAGS: Mapping[str, Flag] = _parse(_FLAGS)
