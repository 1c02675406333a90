{{/* The prefix of all names: the release's name, with the chart's unless it has it already. */}}
{{- define "penstock.name" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{/* Labels of every object. Context: root, and process where the object belongs to one. */}}
{{- define "penstock.labels" -}}
{{ include "penstock.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- end }}

{{/* Labels that select pods. */}}
{{- define "penstock.selector" -}}
app.kubernetes.io/name: penstock
{{- with .process }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end }}

{{/* The processes that run, as a list in JSON. */}}
{{- define "penstock.processes" -}}
{{- $processes := list "standalone" -}}
{{- if eq .Values.mode "processes" -}}
{{- $processes = list "watch" "worker" "scaler" "beat" -}}
{{- end -}}
{{- if .Values.gateway.enabled -}}{{- $processes = append $processes "gateway" -}}{{- end -}}
{{- if .Values.volcano.enabled -}}{{- $processes = append $processes "webhook" -}}{{- end -}}
{{- toJson $processes -}}
{{- end }}

{{- define "penstock.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "penstock.brokerSecret" -}}
{{- .Values.broker.existingSecret | default (printf "%s-broker" (include "penstock.name" .)) -}}
{{- end }}

{{/* The version of PodDisruptionBudget that the cluster has; without one, that of `helm template --kube-version`. */}}
{{- define "penstock.budgets" -}}
{{- $versions := .Capabilities.APIVersions -}}
{{- $old := or (semverCompare "~1.20-0" .Capabilities.KubeVersion.Version) (and ($versions.Has "policy/v1beta1") (not ($versions.Has "policy/v1"))) -}}
{{- $old | ternary "policy/v1beta1" "policy/v1" -}}
{{- end }}

{{/* Fails, and says why, for choices that exclude each other. */}}
{{- define "penstock.check" -}}
{{- $brokers := 0 -}}
{{- range list .Values.broker.url .Values.broker.existingSecret .Values.redis.enabled -}}
{{- if . -}}{{- $brokers = add1 $brokers -}}{{- end -}}
{{- end -}}
{{- if eq (int $brokers) 0 -}}
{{- fail "\n\nbroker: Penstock needs a Redis or Valkey server. Name a Secret with its URL (--set broker.existingSecret=NAME), or try it out with a Redis of this chart (--set redis.enabled=true)." -}}
{{- else if gt (int $brokers) 1 -}}
{{- fail "\n\nbroker: set only one of broker.url, broker.existingSecret and redis.enabled." -}}
{{- end -}}
{{- if .Values.kubeconfig.existingSecret -}}
{{- if .Values.autoscaling.enabled -}}
{{- fail "\n\nautoscaling.enabled: the pods run in another cluster than the one that kubeconfig.existingSecret names, so its ScaledObjects cannot scale them." -}}
{{- end -}}
{{- if and .Values.volcano.enabled (not .Values.settings.webhook_url) -}}
{{- fail "\n\nsettings.webhook_url: the API server of kubeconfig.existingSecret cannot use a Service of this cluster; name the https URL by which it reaches the webhook." -}}
{{- end -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (ne .Values.mode "processes") -}}
{{- fail "\n\nautoscaling.enabled: mode standalone has no workers to add; use mode: processes." -}}
{{- end -}}
{{- if and .Values.namespaces .Values.volcano.enabled -}}
{{- fail "\n\nnamespaces: Queues of Volcano belong to no namespace, so its kinds need rights in all of them; leave namespaces empty or set volcano.enabled=false." -}}
{{- end -}}
{{- if and .Values.namespaces .Values.settings.policies (not .Values.settings.cluster_scoped) -}}
{{- fail "\n\nsettings.policies: ScalePolicies belong to no namespace, so they need rights in all of them; leave namespaces empty or settings.policies out." -}}
{{- end -}}
{{- if and .Values.gateway.ingress.enabled (not .Values.gateway.enabled) -}}
{{- fail "\n\ngateway.ingress.enabled: there is no gateway; set gateway.enabled=true." -}}
{{- end -}}
{{- end }}
