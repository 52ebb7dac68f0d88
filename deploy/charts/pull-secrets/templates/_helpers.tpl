{{- define "regcred.labels" -}}
app.kubernetes.io/name: regcred-pull-secrets
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "regcred.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default (.Chart.AppVersion | replace "+" "_") }}
{{- end }}
{{- end }}

{{- define "regcred.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* The name of cluster-wide objects. A namespace's name contains no dot. */}}
{{- define "regcred.clusterName" -}}
{{ .Release.Namespace }}.{{ .Release.Name }}
{{- end }}

{{- define "regcred.user" -}}
system:serviceaccount:{{ .Release.Namespace }}:{{ .Release.Name }}
{{- end }}

{{/* A string as a CEL expression. */}}
{{- define "regcred.cel" -}}
'{{ . | replace "\\" "\\\\" | replace "'" "\\'" }}'
{{- end }}

{{- define "regcred.celList" -}}
[{{ range $i, $s := . }}{{ if $i }}, {{ end }}{{ include "regcred.cel" $s }}{{ end }}]
{{- end }}

{{/* The names of all Secrets, as JSON. */}}
{{- define "regcred.secrets" -}}
{{- $names := list .Values.pullSecrets.secretName }}
{{- range .Values.pullSecrets.serviceAccounts }}
{{- $names = append $names (printf "%s-%s" $.Values.pullSecrets.secretName .) }}
{{- end }}
{{- mustToJson $names }}
{{- end }}

{{/* The sorted audiences of the providers' tokens, as JSON. */}}
{{- define "regcred.audiences" -}}
{{- $all := list }}
{{- if .Values.pullSecrets.serviceAccounts }}
{{- range .Values.config.providers }}
{{- with .tokenAttributes }}
{{- $all = append $all .serviceAccountTokenAudience }}
{{- end }}
{{- end }}
{{- end }}
{{- $all | uniq | sortAlpha | mustToJson }}
{{- end }}

{{/* A CEL expression: the namespace is selected. */}}
{{- define "regcred.selected" -}}
{{- $terms := list }}
{{- range $k, $v := .Values.pullSecrets.namespaces.matchLabels }}
{{- $terms = append $terms (printf "namespaceObject.metadata.?labels[%s].orValue('') == %s" (include "regcred.cel" $k) (include "regcred.cel" $v)) }}
{{- end }}
{{- join " && " $terms }}
{{- end }}
