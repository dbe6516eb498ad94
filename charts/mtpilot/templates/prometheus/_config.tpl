{{/* Engines and gateways by label and port name, with the labels that the operator joins on; the operator by its Service. */}}
{{- define "mtpilot.prometheusConfig" -}}
{{- $namespaces := .Values.watchNamespaces -}}
global:
  scrape_interval: {{ .Values.prometheus.scrapeIntervalSeconds }}s
  scrape_timeout: {{ min 10 (.Values.prometheus.scrapeIntervalSeconds | int) }}s
  evaluation_interval: 15s
rule_files: [/etc/prometheus/alerts.yaml]
scrape_configs:
  {{- range $component, $ports := dict "engine" "http" "gateway" "metrics|agent" }}
  - job_name: mtpilot-{{ $component }}s
    kubernetes_sd_configs:
      - role: pod
        {{- if $namespaces }}
        namespaces:
          names: {{ toJson $namespaces }}
        {{- end }}
        selectors:
          - role: pod
            label: app.kubernetes.io/managed-by=mtpilot,mtpilot.dev/component={{ $component }}
    relabel_configs:
      - source_labels: [__meta_kubernetes_pod_phase]
        action: drop
        regex: Pending|Succeeded|Failed
      - source_labels: [__meta_kubernetes_pod_container_port_name]
        action: keep
        regex: {{ $ports }}
      - source_labels: [__meta_kubernetes_namespace]
        target_label: namespace
      - source_labels: [__meta_kubernetes_pod_name]
        target_label: pod
      - source_labels: [__meta_kubernetes_pod_label_mtpilot_dev_service]
        target_label: mtpilot_dev_service
  {{- end }}
  - job_name: mtpilot-operator
    honor_labels: true # its series name the namespace and service that they speak of
    static_configs:
      - targets: ["{{ include "mtpilot.fullname" . }}-metrics.{{ include "mtpilot.namespace" . }}:{{ .Values.operator.metricsPort }}"]
{{- end -}}
