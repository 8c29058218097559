{{- /* Generated from config/rbac/operator.yaml by `make generate`. */ -}}

{{- define "flamectl-operator.rules" -}}
- apiGroups: [flame.xflops.io]
  resources: [flameclusters]
  verbs: [list, watch, get]
- apiGroups: [flame.xflops.io]
  resources: [flameclusters/status]
  verbs: [update]
- apiGroups: [flame.xflops.io]
  resources: [flameclusters/finalizers]
  verbs: [update]
- apiGroups: ['']
  resources: [pods, configmaps, persistentvolumeclaims]
  verbs: [list, watch, get, create, patch, delete]
- apiGroups: ['']
  resources: [services]
  verbs: [list, watch, get, create, patch]
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [list, watch, get, create, patch, delete]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [get, create, patch]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch, list]
{{- end }}

{{- define "flamectl-operator-election.rules" -}}
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  verbs: [create]
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [{{ dig "leaderElection" "resourceName" "flamectl-operator" (.Values.config | default dict) | quote }}]
  verbs: [get, patch]
{{- end }}

{{- define "flamectl-operator-settings.rules" -}}
- apiGroups: ['']
  resources: [configmaps]
  verbs: [create]
- apiGroups: ['']
  resources: [configmaps]
  resourceNames: [flamectl-operator-config]
  verbs: [get]
- apiGroups: ['']
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "flamectl-operator-edit.rules" -}}
- apiGroups: [flame.xflops.io]
  resources: [flameclusters]
  verbs: [get, list, watch, create, update, patch, delete]
- apiGroups: [flame.xflops.io]
  resources: [flameclusters/scale]
  verbs: [get, update, patch]
{{- end }}

{{- define "flamectl-operator-view.rules" -}}
- apiGroups: [flame.xflops.io]
  resources: [flameclusters]
  verbs: [get, list, watch]
- apiGroups: [flame.xflops.io]
  resources: [flameclusters/status, flameclusters/scale]
  verbs: [get]
{{- end }}
