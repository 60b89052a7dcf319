{{- /* The text of files of config/, in the namespace of the release: (list $ "files/…" …). */ -}}
{{- define "multiqueue.files" -}}
{{- $root := first . }}
{{- range $glob := rest . }}
{{- range $path, $_ := $root.Files.Glob $glob }}
---
{{ $root.Files.Get $path | replace "kueue-system" $root.Release.Namespace }}
{{- end }}
{{- end }}
{{- end }}

{{- /* One object of config/ as YAML, to be changed: fromYaml (include "multiqueue.object" (list $ "files/…")). */ -}}
{{- define "multiqueue.object" -}}
{{- (first .).Files.Get (last .) | replace "kueue-system" (first .).Release.Namespace }}
{{- end }}

{{- /* Sets the image and the place of a pod as the values say: (list $ pod). Its first container runs the program. */ -}}
{{- define "multiqueue.place" -}}
{{- $root := first . }}
{{- $pod := last . }}
{{- $values := $root.Values.controllerManager }}
{{- $image := $values.manager.image }}
{{- $program := first $pod.containers }}
{{- $_ := set $program "image" (printf "%s:%s" $image.repository ($image.tag | default $root.Chart.AppVersion)) }}
{{- $_ := set $program "imagePullPolicy" $image.pullPolicy }}
{{- with $values.manager.priorityClassName }}
{{- $_ := set $pod "priorityClassName" . }}
{{- end }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" }}
{{- with get $values $field }}
{{- $_ := set $pod $field . }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The manager's Configuration. */ -}}
{{- define "multiqueue.configuration" -}}
{{- $given := .Values.managerConfig.controllerManagerConfigYaml | default (.Files.Get "files/manager/controller_manager_config.yaml") }}
{{- $config := fromYaml $given }}
{{- if not (eq (toString $config.kind) "Configuration") }}
{{- fail (printf "managerConfig.controllerManagerConfigYaml: it is no Configuration: %s" ($config.Error | default "kind is missing or another one")) }}
{{- end }}
{{- if not $config.namespace }}
{{- $_ := set $config "namespace" .Release.Namespace }}
{{- end }}
{{- if and .Values.enableCertManager (not $config.internalCertManagement) }}
{{- $_ := set $config "internalCertManagement" (dict "enable" false) }}
{{- end }}
{{- $internal := $config.internalCertManagement | default dict }}
{{- if and .Values.enableCertManager (ne (toString $internal.enable) "false") }}
{{- fail "enableCertManager: internalCertManagement.enable of the configuration must be false then" }}
{{- end }}
{{- if and (not .Values.enableCertManager) (eq (toString $internal.enable) "false") }}
{{- fail "internalCertManagement.enable of the configuration is false, so nobody makes certificates: set enableCertManager" }}
{{- end }}
{{- with .Values.dashboard }}
{{- if .enabled }}
{{- $given := $config.dashboard | default dict }}
{{- if not (has ($given.bindAddress | default ":8444") (list ":8444")) }}
{{- fail "dashboard.enabled: the Service leads to port 8444; remove dashboard.bindAddress from the configuration" }}
{{- end }}
{{- $_ := set $config "dashboard" (merge (dict "bindAddress" ":8444") $given (dict "url" .url)) }}
{{- end }}
{{- end }}
{{- with .Values.controllerManager.featureGates }}
{{- $gates := $config.featureGates | default dict }}
{{- range . }}
{{- $_ := set $gates .name .enabled }}
{{- end }}
{{- $_ := set $config "featureGates" $gates }}
{{- end }}
{{- toYaml $config }}
{{- end }}

{{- /* Refuses values that this chart cannot honour. */ -}}
{{- define "multiqueue.refuse" -}}
{{- range $field := list "nameOverride" "fullnameOverride" }}
{{- if not (has (get $.Values $field) (list "" "kueue")) }}
{{- fail (printf "%s: objects are always named kueue-…, because the manager, its workers and roles refer to these names; leave it empty" $field) }}
{{- end }}
{{- end }}
{{- if hasSuffix "kueue/kueue" .Values.controllerManager.manager.image.repository }}
{{- fail "controllerManager.manager.image.repository: this is the image of upstream Kueue; name the one of multiqueue" }}
{{- end }}
{{- if ne .Values.mutatingWebhook.reinvocationPolicy "Never" }}
{{- fail "mutatingWebhook.reinvocationPolicy: the manager registers its webhooks itself, with Never; leave it so" }}
{{- end }}
{{- end }}
