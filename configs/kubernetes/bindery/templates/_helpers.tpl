{{- define "bindery.name" -}}
{{- printf "%s-bindery" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "bindery.selector" -}}
app.kubernetes.io/name: bindery
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "bindery.labels" -}}
{{ include "bindery.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "bindery.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "bindery.data" -}}
{{ .Values.data.address | default "/var/lib/bindery/data" }}
{{- end -}}

{{- define "bindery.claim" -}}
{{ .Values.data.volume.claim | default (include "bindery.name" .) }}
{{- end -}}

{{- /* Security of every pod, and of every container in it. */ -}}
{{- define "bindery.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "bindery.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{- /* Environment of every container: what the values state, and the keys of their Secrets. */ -}}
{{- define "bindery.env" -}}
- name: PYSPARK_PYTHON
  value: /opt/venv/bin/python
{{- range $name, $value := .Values.env }}
- name: {{ $name }}
  value: {{ $value | quote }}
{{- end }}
{{- end -}}

{{- define "bindery.envFrom" -}}
{{- range .Values.secrets }}
- secretRef:
    name: {{ . }}
{{- end }}
{{- end -}}

{{- define "bindery.mounts" -}}
- name: tmp
  mountPath: /tmp
{{- if not .Values.data.address }}
- name: data
  mountPath: /var/lib/bindery
{{- end }}
{{- end -}}

{{- define "bindery.volumes" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .Values.scratchSize }}
{{- if not .Values.data.address }}
- name: data
  persistentVolumeClaim:
    claimName: {{ include "bindery.claim" . }}
{{- end }}
{{- end -}}

{{- define "bindery.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* A look at the control plane: 401 is the answer of one that works to a caller without credentials. */ -}}
{{- define "bindery.asked" -}}
command:
  - python
  - -c
  - |
    import http.client, ssl
    {{- if .Values.controlPlane.tls.secretName }}
    unverified = ssl._create_unverified_context()
    service = http.client.HTTPSConnection("127.0.0.1", 15672, timeout=4, context=unverified)
    {{- else }}
    service = http.client.HTTPConnection("127.0.0.1", 15672, timeout=4)
    {{- end }}
    service.request("GET", "/healthz/ready")
    raise SystemExit(service.getresponse().status != 200)
{{- end -}}
