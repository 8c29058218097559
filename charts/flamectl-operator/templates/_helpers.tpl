{{/* Of every object. Beside what Helm asks for nothing that config/ does not have. */}}
{{- define "flamectl-operator.labels" -}}
app.kubernetes.io/name: flamectl-operator
app.kubernetes.io/instance: {{ .Release.Name | quote }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "flamectl-operator.image" -}}
{{ .Values.image.repository }}{{ with .Values.image.digest }}@{{ . }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* A RoleBinding or ClusterRoleBinding to a role of the same name. Takes root, kind, roleKind, name, namespace. */}}
{{- define "flamectl-operator.binding" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . | quote }}
  {{- end }}
  labels:
    {{- include "flamectl-operator.labels" .root | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .roleKind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: {{ .root.Values.serviceAccount.name | quote }}
    namespace: {{ .root.Release.Namespace | quote }}
{{- end }}
