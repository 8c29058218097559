{{/* The name of the objects. By default the one that config/ has, so that an installation can change over. */}}
{{- define "flamectl-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if .Values.nameOverride -}}
{{- if contains .Values.nameOverride .Release.Name -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end -}}
{{- else -}}
flamectl-operator
{{- end -}}
{{- end }}

{{- define "flamectl-operator.serviceAccountName" -}}
{{ .Values.serviceAccount.name | default (include "flamectl-operator.fullname" .) }}
{{- end }}

{{/* Of every object. Beside what Helm asks for nothing that config/ does not have. The name stays as it is whatever the objects
are called: the selectors of an installation cannot change, and alerts and dashboards go by it. */}}
{{- define "flamectl-operator.labels" -}}
{{- with omit .Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{- toYaml . }}
{{ end -}}
app.kubernetes.io/name: flamectl-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "flamectl-operator.image" -}}
{{- with dig "imageRegistry" "" (.Values.global | default dict) | default .Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* A RoleBinding or ClusterRoleBinding to a role of the same name. Takes root, kind, roleKind, name, namespace. */}}
{{- define "flamectl-operator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name | quote }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "flamectl-operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .roleKind }}
  name: {{ .name | quote }}
subjects:
  - kind: ServiceAccount
    name: {{ include "flamectl-operator.serviceAccountName" .root | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
