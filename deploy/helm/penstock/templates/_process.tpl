{{/* The Deployment of a process. Context: root, process. */}}
{{- define "penstock.deployment" -}}
{{- $root := .root -}}
{{- $process := .process -}}
{{- $name := printf "%s-%s" (include "penstock.name" $root) $process -}}
{{- $own := get $root.Values $process -}}
{{- $pod := mergeOverwrite (deepCopy $root.Values.defaults) (deepCopy $own) -}}
{{- $scaled := and $root.Values.autoscaling.enabled (hasKey $root.Values.autoscaling $process) -}}
{{- $beside := $root.Values.kubeconfig.existingSecret -}}
{{- $tls := and (eq $process "gateway") $own.tls.existingSecret -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $root.Release.Namespace }}
  labels:
    {{- include "penstock.labels" . | nindent 4 }}
spec:
  {{- if not $scaled }}
  replicas: {{ $pod.replicas }}
  {{- else }}
  {{- /* Left out in an upgrade the number would be one, until the ScaledObject counts again. */}}
  {{- with lookup "apps/v1" "Deployment" $root.Release.Namespace $name }}
  replicas: {{ .spec.replicas }}
  {{- end }}
  {{- end }}
  revisionHistoryLimit: {{ $pod.revisionHistoryLimit }}
  selector:
    matchLabels:
      {{- include "penstock.selector" . | nindent 6 }}
  strategy:
    {{- eq $pod.strategy.type "Recreate" | ternary (dict "type" "Recreate") $pod.strategy | toYaml | nindent 4 }}
  template:
    metadata:
      labels:
        {{- include "penstock.selector" . | nindent 8 }}
        {{- with $pod.podLabels }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      annotations:
        checksum/settings: {{ include "penstock.settings" $root | sha256sum }}
        {{- if $root.Values.broker.url }}
        checksum/broker: {{ $root.Values.broker.url | sha256sum }}
        {{- end }}
        {{- with $pod.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      {{- /* The clock asks no API server; with a kubeconfig nobody asks this cluster's. */}}
      automountServiceAccountToken: {{ and (ne $process "beat") (not $beside) }}
      {{- /* Variables of Services begin with PENSTOCK_, too. */}}
      enableServiceLinks: false
      {{- with $root.Values.image.pullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $pod.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with $pod.runtimeClassName }}
      runtimeClassName: {{ . }}
      {{- end }}
      terminationGracePeriodSeconds: {{ $pod.terminationGracePeriodSeconds }}
      securityContext:
        {{- toYaml $pod.podSecurityContext | nindent 8 }}
      {{- with $pod.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $pod.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      topologySpreadConstraints:
        {{- if $pod.topologySpreadConstraints }}
        {{- toYaml $pod.topologySpreadConstraints | nindent 8 }}
        {{- else }}
        - maxSkew: 1
          topologyKey: kubernetes.io/hostname
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "penstock.selector" . | nindent 14 }}
        {{- end }}
      {{- with $pod.initContainers }}
      initContainers:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: penstock
          image: {{ include "penstock.image" $root }}
          imagePullPolicy: {{ $root.Values.image.pullPolicy }}
          args: {{ concat (list $process) $pod.extraArgs | toJson }}
          env:
            - name: PENSTOCK_BROKER
              valueFrom:
                secretKeyRef:
                  name: {{ include "penstock.brokerSecret" $root }}
                  key: {{ $root.Values.broker.key }}
            - name: PENSTOCK_OWN_NAMESPACE
              {{- if $beside }}
              value: {{ $root.Values.kubeconfig.namespace }}
              {{- else }}
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
              {{- end }}
            {{- with $pod.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          envFrom:
            - configMapRef:
                name: {{ include "penstock.name" $root }}-settings
            {{- with $pod.extraEnvFrom }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            - name: health
              containerPort: {{ $root.Values.ports.health }}
              protocol: TCP
            {{- if ne $process "beat" }}
            - name: metrics
              containerPort: {{ $root.Values.ports.metrics }}
              protocol: TCP
            {{- end }}
            {{- if eq $process "gateway" }}
            - name: http
              containerPort: {{ $root.Values.ports.gateway }}
              protocol: TCP
            {{- end }}
            {{- if eq $process "webhook" }}
            - name: https
              containerPort: {{ $root.Values.ports.webhook }}
              protocol: TCP
            {{- end }}
          {{- /* The gateway is ready where it takes events. With all the connections that it takes it is alive all the same. */}}
          {{- range $probe, $path := dict "startupProbe" "/healthz" "livenessProbe" "/healthz" "readinessProbe" "/readyz" }}
          {{ $probe }}:
            httpGet:
              path: {{ $path }}
              {{- $there := and (eq $process "gateway") (eq $probe "readinessProbe") }}
              port: {{ $there | ternary "http" "health" }}
              {{- if and $tls $there }}
              scheme: HTTPS
              {{- end }}
            {{- toYaml (get $pod $probe) | nindent 12 }}
          {{- end }}
          resources:
            {{- toYaml $pod.resources | nindent 12 }}
          securityContext:
            {{- toYaml $pod.securityContext | nindent 12 }}
          volumeMounts:
            - name: tmp
              mountPath: /tmp
            {{- if $root.Values.broker.ca.existingSecret }}
            - name: broker-ca
              mountPath: /etc/penstock/broker
              readOnly: true
            {{- end }}
            {{- if $beside }}
            - name: kubeconfig
              mountPath: /etc/penstock/cluster
              readOnly: true
            {{- end }}
            {{- if $tls }}
            - name: tls
              mountPath: /etc/penstock/tls
              readOnly: true
            {{- end }}
            {{- with $pod.extraVolumeMounts }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
        {{- with $pod.extraContainers }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      volumes:
        - name: tmp
          emptyDir: {}
        {{- with $root.Values.broker.ca.existingSecret }}
        - name: broker-ca
          secret:
            secretName: {{ . }}
            items:
              - key: {{ $root.Values.broker.ca.key }}
                path: ca.crt
        {{- end }}
        {{- with $beside }}
        - name: kubeconfig
          secret:
            secretName: {{ . }}
            items:
              - key: {{ $root.Values.kubeconfig.key }}
                path: kubeconfig
        {{- end }}
        {{- if $tls }}
        - name: tls
          secret:
            secretName: {{ $own.tls.existingSecret }}
        {{- end }}
        {{- with $pod.extraVolumes }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
{{- end }}

{{/* The settings of all processes, as the data of a ConfigMap. */}}
{{- define "penstock.settings" -}}
{{- $settings := dict "PENSTOCK_HEALTH" (printf "0.0.0.0:%v" .Values.ports.health) -}}
{{- $_ := set $settings "PENSTOCK_METRICS_PORT" (toString .Values.ports.metrics) -}}
{{- if .Values.gateway.enabled -}}
{{- $_ := set $settings "PENSTOCK_GATEWAY" (printf "0.0.0.0:%v" .Values.ports.gateway) -}}
{{- $_ := set $settings "PENSTOCK_GATEWAY_DRAIN" (toString .Values.gateway.drain) -}}
{{- /* Every pod of the cluster reaches the Service, and the gateway may read the logs of all pods. */}}
{{- $_ := set $settings "PENSTOCK_PAGE" "token" -}}
{{- /* The page answers no browser that calls it by another name. */}}
{{- $hosts := list -}}
{{- if .Values.gateway.ingress.enabled -}}
{{- range .Values.gateway.ingress.hosts -}}
{{- if has "/" (.paths | default (list "/")) -}}{{- $hosts = append $hosts .host -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- with $hosts -}}
{{- $_ := set $settings "PENSTOCK_PAGE_HOSTS" (join "," .) -}}
{{- end -}}
{{- if .Values.gateway.tls.existingSecret -}}
{{- $_ := set $settings "PENSTOCK_TLS_CERT" "/etc/penstock/tls/tls.crt" -}}
{{- $_ := set $settings "PENSTOCK_TLS_KEY" "/etc/penstock/tls/tls.key" -}}
{{- end -}}
{{- end -}}
{{- with .Values.namespaces -}}
{{- $_ := set $settings "PENSTOCK_NAMESPACES" (join "," .) -}}
{{- /* Roles allow no kind without a namespace, and one that may not be listed keeps the pods from being ready. */}}
{{- $_ := set $settings "PENSTOCK_CLUSTER_SCOPED" "false" -}}
{{- end -}}
{{- if .Values.kubeconfig.existingSecret -}}
{{- $_ := set $settings "PENSTOCK_KUBECONFIG" "/etc/penstock/cluster/kubeconfig" -}}
{{- with .Values.kubeconfig.context -}}
{{- $_ := set $settings "PENSTOCK_CONTEXT" . -}}
{{- end -}}
{{- end -}}
{{- if .Values.volcano.enabled -}}
{{- $_ := set $settings "PENSTOCK_VOLCANO" "true" -}}
{{- $_ := set $settings "PENSTOCK_WEBHOOK_LISTEN" (printf "0.0.0.0:%v" .Values.ports.webhook) -}}
{{- $_ := set $settings "PENSTOCK_WEBHOOK_DRAIN" (toString .Values.webhook.drain) -}}
{{- $_ := set $settings "PENSTOCK_WEBHOOK_SERVICE" (printf "%s-webhook" (include "penstock.name" .)) -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- $text := kindIs "string" $value | ternary $value (toJson $value) -}}
{{- if kindIs "slice" $value -}}{{- $text = join "," $value -}}{{- end -}}
{{- $_ := set $settings (printf "PENSTOCK_%s" (upper $name)) $text -}}
{{- end -}}
{{- toYaml $settings -}}
{{- end }}
