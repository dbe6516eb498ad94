{{/* What `mtpilot run` asks for at start (adapters/kube/review.py), and no more: a test holds the two equal. */}}

{{/* Of each served namespace. */}}
{{- define "mtpilot.rules.namespaced" -}}
- apiGroups: [mtpilot.dev]
  resources: [inferenceservices]
  verbs: [get, list, watch, patch] # patch: our finalizer; a spec is never written
- apiGroups: [mtpilot.dev]
  resources: [inferenceservices/status, throughputprofiles/status]
  verbs: [patch]
- apiGroups: [mtpilot.dev]
  resources: [inferenceservices/finalizers]
  verbs: [update] # owner references that block deletion
- apiGroups: [mtpilot.dev]
  resources: [throughputprofiles]
  verbs: [get, list, watch, create, patch] # create, patch: what a calibration measured
- apiGroups: [apps]
  resources: [deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [apps]
  resources: [replicasets]
  verbs: [list]
- apiGroups: [leaderworkerset.x-k8s.io] # replicas over several nodes
  resources: [leaderworkersets]
  verbs: [get, list, create, patch, delete]
- apiGroups: [apps]
  resources: [statefulsets, controllerrevisions] # LeaderWorkerSet's own: whose pod it is, what served before
  verbs: [list]
- apiGroups: [batch]
  resources: [jobs] # that measure a replica
  verbs: [get, list, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [list, watch, patch] # patch: the serving label
- apiGroups: [""]
  resources: [secrets]
  verbs: [get, create] # by name; never listed
- apiGroups: [""]
  resources: [services, configmaps, serviceaccounts]
  verbs: [get, list, create, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [get, create, patch]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, create, patch]
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, create, patch]
{{- end -}}

{{/* Outside any namespace, whatever namespaces are served. */}}
{{- define "mtpilot.rules.cluster" -}}
- apiGroups: [mtpilot.dev]
  resources: [hardwareclasses]
  verbs: [get, list]
- apiGroups: [mtpilot.dev]
  resources: [hardwareclasses/status]
  verbs: [patch]
- apiGroups: [apiextensions.k8s.io]
  resources: [customresourcedefinitions]
  resourceNames: [hardwareclasses.mtpilot.dev, inferenceservices.mtpilot.dev, throughputprofiles.mtpilot.dev]
  verbs: [get]
- apiGroups: [""]
  resources: [nodes]
  verbs: [list]
{{- end -}}

{{/* Arguments: root, kind (Role or ClusterRole), name, account; namespace for a RoleBinding. */}}
{{- define "mtpilot.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "mtpilot.labels" .root | nindent 4 }}
    app.kubernetes.io/component: {{ .component }}
  {{- with .annotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .account }}
    namespace: {{ include "mtpilot.namespace" .root }}
{{- end -}}

{{/* Of `mtpilot cleanup`, in each namespace that it cleans. */}}
{{- define "mtpilot.rules.cleanup" -}}
- apiGroups: [mtpilot.dev]
  resources: [inferenceservices]
  verbs: [get, list, patch{{ if .Values.cleanup.stopServing }}, delete{{ end }}]
{{- end -}}
