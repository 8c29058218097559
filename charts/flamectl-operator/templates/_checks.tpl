{{/* Refuses values that cannot work, and says what other charts' names are called here. */}}
{{- define "flamectl-operator.checks" -}}
{{- $names := dict
  "args" "extraArgs"
  "crds.create" "crds.install"
  "crds.enabled" "crds.install"
  "dashboards" "monitoring.dashboard"
  "deploymentStrategy" "strategy"
  "env" "extraEnv"
  "grafana" "monitoring.dashboard"
  "grafanaDashboard" "monitoring.dashboard"
  "installCRDs" "crds.install"
  "leaderElection" "config.leaderElection (the replicas always elect a leader)"
  "metrics.podMonitor" "monitoring.podMonitor"
  "metrics.prometheusRule" "monitoring.rules"
  "metrics.serviceMonitor" "monitoring.serviceMonitor"
  "podMonitor" "monitoring.podMonitor"
  "priorityClass" "priorityClassName"
  "prometheusRule" "monitoring.rules"
  "replicas" "replicaCount"
  "serviceMonitor" "monitoring.serviceMonitor"
  "updateStrategy" "strategy"
  "volumeMounts" "extraVolumeMounts"
  "volumes" "extraVolumes"
  "watchNamespace" "watchNamespaces" -}}
{{- range $name, $ours := $names -}}
{{- $section := $.Values -}}
{{- if contains "." $name -}}
{{- $section = get $.Values (splitList "." $name | first) | default dict -}}
{{- end -}}
{{- if hasKey $section (splitList "." $name | last) -}}
{{- fail (printf "%s is called %s here" $name $ours) -}}
{{- end -}}
{{- end -}}
{{- $config := .Values.config | default dict -}}
{{- range $section, $port := dict "health" "8081" "metrics" "8080" -}}
{{- with dig $section "bindAddress" "" $config -}}
{{- /* 0 serves no metrics, which is right where nothing asks for them. */ -}}
{{- $unasked := and (eq $section "metrics") (not $.Values.metrics.service) (not $.Values.monitoring.podMonitor) -}}
{{- if not (or (hasSuffix (printf ":%s" $port) .) (and (eq . "0") $unasked)) -}}
{{- fail (printf "config.%s.bindAddress must end in :%s, because probes, Services and monitoring ask at that port" $section $port) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if eq (dig "leaderElection" "leaderElect" true $config | toString) "false" -}}
{{- fail "config.leaderElection.leaderElect=false has no effect, because the chart passes --leader-elect: leave it out" -}}
{{- end -}}
{{- range .Values.extraArgs -}}
{{- if regexMatch "^--(no-leader-elect|metrics-bind-address|health-probe-bind-address)\\b" . -}}
{{- fail (printf "extraArgs cannot have %s, because probes, Services and the election go by what the chart sets" .) -}}
{{- end -}}
{{- end -}}
{{- range $probe := list "startupProbe" "livenessProbe" "readinessProbe" -}}
{{- with dig "httpGet" "port" "" (get $.Values $probe | default dict) -}}
{{- if not (has (toString .) (list "health" "8081")) -}}
{{- fail (printf "%s.httpGet.port must be health, because the operator answers probes at that port alone" $probe) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $volumes := list -}}
{{- range .Values.extraVolumes -}}
{{- $volumes = append $volumes .name -}}
{{- end -}}
{{- range .Values.extraVolumeMounts -}}
{{- if not (has .name $volumes) -}}
{{- fail (printf "extraVolumeMounts names the volume %s, which is not in extraVolumes" .name) -}}
{{- end -}}
{{- end -}}
{{- range .Values.extraEnv -}}
{{- if has .name (list "FLAMECTL_CONFIG_HEALTH_BIND_ADDRESS" "FLAMECTL_CONFIG_METRICS_BIND_ADDRESS") -}}
{{- fail (printf "extraEnv cannot have %s, because probes, Services and monitoring ask at the ports that the chart sets" .name) -}}
{{- end -}}
{{- end -}}
{{- end }}
