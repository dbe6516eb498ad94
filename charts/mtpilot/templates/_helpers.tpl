{{- define "mtpilot.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{/* At most 40 characters: the longest suffix is -prometheus, and a pod's hostname may have 63. */}}
{{- define "mtpilot.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "mtpilot.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mtpilot.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "mtpilot.selector" -}}
app.kubernetes.io/name: {{ include "mtpilot.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Without a component: each object adds its own. */}}
{{- define "mtpilot.labels" -}}
{{ include "mtpilot.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: mtpilot
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "mtpilot.operatorSelector" -}}
{{ include "mtpilot.selector" . }}
app.kubernetes.io/component: operator
{{- end -}}

{{- define "mtpilot.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "mtpilot.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- required "serviceAccount.create is false: name an existing account in serviceAccount.name" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* repository, tag and digest to a reference: the digest wins. */}}
{{- define "mtpilot.reference" -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository .tag -}}
{{- end -}}
{{- end -}}

{{- define "mtpilot.image" -}}
{{- include "mtpilot.reference" (dict "repository" .Values.image.repository "digest" .Values.image.digest "tag" (default .Chart.AppVersion .Values.image.tag)) -}}
{{- end -}}

{{- define "mtpilot.prometheusName" -}}
{{- printf "%s-prometheus" (include "mtpilot.fullname" .) -}}
{{- end -}}

{{- define "mtpilot.prometheusUrl" -}}
{{- if .Values.prometheus.install -}}
{{- printf "http://%s.%s:9090" (include "mtpilot.prometheusName" .) (include "mtpilot.namespace" .) -}}
{{- else -}}
{{- default "http://prometheus-operated.monitoring:9090" .Values.prometheus.url -}}
{{- end -}}
{{- end -}}

{{- define "mtpilot.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "mtpilot.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What the schema cannot say in words. */}}
{{- define "mtpilot.validate" -}}
{{- $prometheus := .Values.prometheus -}}
{{- if and $prometheus.bearerToken.existingSecret $prometheus.basicAuth.existingSecret -}}
{{- fail "prometheus: bearerToken.existingSecret and basicAuth.existingSecret exclude each other" -}}
{{- end -}}
{{- if and $prometheus.ca.existingSecret $prometheus.ca.existingConfigMap -}}
{{- fail "prometheus.ca: existingSecret and existingConfigMap exclude each other" -}}
{{- end -}}
{{- if $prometheus.install -}}
{{- if $prometheus.url -}}
{{- fail "prometheus.install is true: the chart's own Prometheus is used, so leave prometheus.url empty" -}}
{{- end -}}
{{- if or $prometheus.bearerToken.existingSecret $prometheus.basicAuth.existingSecret $prometheus.ca.existingSecret $prometheus.ca.existingConfigMap -}}
{{- fail "prometheus.install is true: the chart's own Prometheus asks for no token, password or authority" -}}
{{- end -}}
{{- end -}}
{{- if and (or $prometheus.ca.existingSecret $prometheus.ca.existingConfigMap) (hasPrefix "http://" $prometheus.url) -}}
{{- fail "prometheus.ca: prometheus.url begins with http://, so there is no certificate to check" -}}
{{- end -}}
{{- if and .Values.cleanup.enabled (not .Values.rbac.create) -}}
{{- fail "cleanup.enabled needs rbac.create: the hook's account gets its rights from the chart. Set cleanup.enabled to false and run `mtpilot cleanup` before an uninstall" -}}
{{- end -}}
{{- end -}}

{{/* The volume source of Prometheus' authority, or nothing. */}}
{{- define "mtpilot.prometheusCa" -}}
{{- with .Values.prometheus.ca -}}
{{- if .existingSecret -}}
secret:
  secretName: {{ .existingSecret }}
  items: [{key: {{ .key }}, path: ca.crt}]
{{- else if .existingConfigMap -}}
configMap:
  name: {{ .existingConfigMap }}
  items: [{key: {{ .key }}, path: ca.crt}]
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The port of Prometheus' URL, as pods are reached: a Service that maps it to another port needs a policy of its own. */}}
{{- define "mtpilot.prometheusPort" -}}
{{- $url := urlParse (include "mtpilot.prometheusUrl" .) -}}
{{- $port := regexFind ":[0-9]+$" $url.host | trimPrefix ":" -}}
{{- default (ternary "443" "80" (eq $url.scheme "https")) $port -}}
{{- end -}}

{{/* The alert groups as files/alerts.yaml has them, with the runbook's address. */}}
{{- define "mtpilot.alerts" -}}
{{- .Files.Get "files/alerts.yaml" | replace "docs/runbook.md" .Values.monitoring.rules.runbookUrl -}}
{{- end -}}
