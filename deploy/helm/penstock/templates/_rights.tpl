{{/* The roles with the rules of a process. Context: root, process, name, rules (namespaced, cluster, own), namespaces. */}}
{{- define "penstock.rolesOf" -}}
{{- $context := . -}}
{{- $everywhere := concat (.rules.namespaced | default list) (.rules.cluster | default list) -}}
{{- if and (not .namespaces) $everywhere -}}
{{ include "penstock.role" (merge (dict "kind" "ClusterRole" "rules" $everywhere) .) }}
{{- end -}}
{{- if .rules.namespaced -}}
{{- range .namespaces -}}
{{ include "penstock.role" (merge (dict "kind" "Role" "namespace" . "rules" $context.rules.namespaced) $context) }}
{{- end -}}
{{- end -}}
{{- with .rules.own -}}
{{- $name := empty $context.namespaces | ternary $context.name (printf "%s-own" $context.name) -}}
{{ include "penstock.role" (merge (dict "kind" "Role" "namespace" $context.root.Release.Namespace "name" $name "rules" .) $context) }}
{{- end -}}
{{- end }}

{{/* A role and its binding to the account of a process. Context: root, process, kind, name, namespace, rules. */}}
{{- define "penstock.role" -}}
{{ include "penstock.rules" . }}
{{- include "penstock.binding" (merge (dict "kind" (printf "%sBinding" .kind) "of" .kind) .) }}
{{- end }}

{{/* A role. Context: as above; aggregate: the cluster's role that takes it up. */}}
{{- define "penstock.rules" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
    {{- with .aggregate }}
    rbac.authorization.k8s.io/aggregate-to-{{ . }}: "true"
    {{- end }}
rules:
  {{- toYaml .rules | nindent 2 }}
{{- end }}

{{/* A binding to the account of a process. Context: as above; of: the kind of the role. */}}
{{- define "penstock.binding" }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .of }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ include "penstock.name" .root }}-{{ .process }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}
