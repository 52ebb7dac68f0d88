{{/*
Every object is called RELEASE or RELEASE-something. No two releases of a namespace
have a name in common, since each kind has its own endings.
*/}}

{{- define "regcred.selector" -}}
app.kubernetes.io/name: regcred
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/component: agent
{{- end }}

{{- define "regcred.labels" -}}
app.kubernetes.io/name: regcred
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "regcred.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ include "regcred.tag" . }}
{{- end }}
{{- end }}

{{- define "regcred.tag" -}}
{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "_") }}
{{- end }}

{{/* What tells pods of one image from those of another, as a label can have it. */}}
{{- define "regcred.version" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.digest | replace ":" "-" | trunc 63 }}
{{- else -}}
{{ include "regcred.tag" . | trunc 63 | trimAll "-._" }}
{{- end }}
{{- end }}

{{/* The configuration, and the name that it gives to its ConfigMap. */}}
{{- define "regcred.config" -}}
config.yaml: |
  {{- mustToYaml .Values.config | nindent 2 }}
{{- end }}

{{- define "regcred.configName" -}}
{{ .Release.Name }}-config-{{ include "regcred.config" . | sha256sum | trunc 10 }}
{{- end }}

{{/* Of every container: no right that its user does not have by itself. */}}
{{- define "regcred.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* Of the objects that are there while helm uninstall runs. */}}
{{- define "regcred.hook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
