{{- define "lockkeeper.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "lockkeeper.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains (include "lockkeeper.name" .) .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "lockkeeper.name" .) | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- /* The names of the pods of a Deployment: its own, a hash of at most 10 letters, and 5 more. Of
what is before those 5, Kubernetes keeps 58 letters. */ -}}
{{- define "lockkeeper.podPattern" -}}
{{- if le (len .) 46 -}}
{{- printf "%s-[a-z0-9]+-[a-z0-9]+" . -}}
{{- else -}}
{{- printf "%s[-a-z0-9]+" (printf "%s-" . | trunc 58) -}}
{{- end -}}
{{- end -}}

{{- /* Whether coordinators verify each other, and the values do not say how. */ -}}
{{- define "lockkeeper.fleetOverTls" -}}
{{- $own := regexMatch `(?m)^\s*(\[fleet\]|fleet\.|fleet\s*=)` .Values.config -}}
{{- $own = or $own (contains "LOCKKEEPER__FLEET__" (toJson .Values.extraEnv)) -}}
{{- if and .Values.tls.secretName (not $own) -}}yes{{- end -}}
{{- end -}}

{{- define "lockkeeper.selector" -}}
app.kubernetes.io/name: {{ include "lockkeeper.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "lockkeeper.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "lockkeeper.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "lockkeeper.secret" -}}
{{- default (include "lockkeeper.fullname" .) .Values.existingSecret -}}
{{- end -}}

{{- define "lockkeeper.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "lockkeeper.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- /* Whether callers show who they are. */ -}}
{{- define "lockkeeper.authenticates" -}}
{{- if or .Values.auth.tokensSecret .Values.auth.jwks .Values.tls.clientCertificates -}}yes{{- end -}}
{{- end -}}

{{- define "lockkeeper.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- /* The files of the ConfigMap. */ -}}
{{- define "lockkeeper.config" -}}
config.toml: |
  {{- .Values.config | nindent 2 }}
  {{- range .Values.access.rules }}

  [[access.rules]]
  {{- toToml . | trim | nindent 2 }}
  {{- end }}
  {{- with .Values.access.quotas }}

  [access.quotas]
  {{- range $key, $value := . }}
  {{ $key }} = {{ $value | int64 }}
  {{- end }}
  {{- end }}
{{- with .Values.auth.jwks }}
jwks.json: |
  {{- . | nindent 2 }}
{{- end }}
{{- end -}}

{{- /* The keys of the Secret; only that of the values has other ones. */ -}}
{{- define "lockkeeper.storeUrlKey" -}}
{{- ternary .Values.existingSecretKeys.storeUrl "store-url" (ne .Values.existingSecret "") -}}
{{- end -}}

{{- /* Empty: there is one store. */ -}}
{{- define "lockkeeper.storeQuorumKey" -}}
{{- if .Values.existingSecret -}}
{{- .Values.existingSecretKeys.storeQuorum -}}
{{- else if .Values.store.quorum -}}
store-quorum
{{- end -}}
{{- end -}}

{{- /* The address of the store, or those of a quorum. */ -}}
{{- define "lockkeeper.stores" -}}
{{- .Values.store.quorum | default (list .Values.store.url) | join " " -}}
{{- end -}}

{{- define "lockkeeper.sessionSecretKey" -}}
{{- ternary .Values.existingSecretKeys.sessionSecret "session-secret" (ne .Values.existingSecret "") -}}
{{- end -}}

{{- /* That of the values, or the one that the release has. There is deliberately no random one:
`helm template`, with which Argo CD renders, would make another each time. */ -}}
{{- define "lockkeeper.sessionSecret" -}}
{{- $secret := lookup "v1" "Secret" .Release.Namespace (include "lockkeeper.fullname" .) -}}
{{- $kept := index (default dict $secret.data) "session-secret" | default "" | b64dec -}}
{{- required "session.secret: set it, such as by --set session.secret=\"$(openssl rand -base64 32)\" and the same at each upgrade, or set existingSecret" (default $kept .Values.session.secret) -}}
{{- end -}}

{{- /* What holds the locks, without what may change while it stays the same: user, password, options. */ -}}
{{- define "lockkeeper.storeId" -}}
{{- if .Values.store.id -}}
{{- .Values.store.id -}}
{{- else -}}
{{- /* A quorum in another order is the same. */ -}}
{{- $url := include "lockkeeper.stores" . -}}
{{- $url = regexReplaceAll "[?#][^ ]*" $url "" -}}
{{- $url = regexReplaceAll "//[^/ ]*@" $url "//" -}}
{{- $url = splitList " " $url | sortAlpha | join " " -}}
{{- $store := ternary (print "secret " .Values.existingSecret) $url (ne .Values.existingSecret "") -}}
{{- /* Never a number, which `--set store.id` would make of digits alone. */ -}}
{{- printf "%s\n%s" $store .Values.store.keyPrefix | sha256sum | trunc 12 | printf "store-%s" -}}
{{- end -}}
{{- end -}}

{{- /* Coordinators of another store that still run would grant the same locks again. */ -}}
{{- define "lockkeeper.checkStore" -}}
{{- $name := include "lockkeeper.fullname" . -}}
{{- $running := lookup "apps/v1" "Deployment" .Release.Namespace $name -}}
{{- $labels := (((($running).spec).template).metadata).labels | default dict -}}
{{- $theirs := index $labels "lockkeeper/store" | default "" -}}
{{- $id := include "lockkeeper.storeId" . -}}
{{- if and $theirs (ne $theirs $id) (gt (int ($running.spec.replicas)) 0) -}}
{{- fail (printf "store: the coordinators that run have the store %s, and these values name another, %s. Stop them first (kubectl --namespace %s scale deployment/%s --replicas=0), wait until their pods are gone and the longest lease is over, and upgrade again. If it is the same store, set store.id=%s" $theirs $id .Release.Namespace $name $theirs) -}}
{{- end -}}
{{- end -}}

{{- /* What no values can have meant. */ -}}
{{- define "lockkeeper.check" -}}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secretName) -}}
{{- fail "tls.clientCertificates needs tls.secretName" -}}
{{- end -}}
{{- if and .Values.tls.privateAuthority (not .Values.tls.secretName) -}}
{{- fail "tls.privateAuthority needs tls.secretName" -}}
{{- end -}}
{{- if and .Values.store.tls.clientCertificate (not .Values.store.tls.secretName) -}}
{{- fail "store.tls.clientCertificate needs store.tls.secretName" -}}
{{- end -}}
{{- if not (or (include "lockkeeper.authenticates" .) .Values.auth.allowUnauthenticated) -}}
{{- fail "callers need no credentials: set auth.tokensSecret, auth.jwks or tls.clientCertificates, or auth.allowUnauthenticated=true" -}}
{{- end -}}
{{- if and (include "lockkeeper.authenticates" .) .Values.auth.allowUnauthenticated -}}
{{- fail "auth.allowUnauthenticated excludes auth.tokensSecret, auth.jwks and tls.clientCertificates" -}}
{{- end -}}
{{- if and (or .Values.auth.tokensSecret .Values.auth.jwks) (not .Values.tls.secretName) (not .Values.auth.allowPlaintext) -}}
{{- fail "tokens need an encrypted connection: set tls.secretName, or auth.allowPlaintext=true if a service mesh encrypts" -}}
{{- end -}}
{{- if and (or .Values.auth.jwtIssuer .Values.auth.jwtAudience) (not .Values.auth.jwks) -}}
{{- fail "auth.jwtIssuer and auth.jwtAudience need auth.jwks" -}}
{{- end -}}
{{- $hasRights := or (include "lockkeeper.authenticates" .) .Values.access.rules -}}
{{- if and $hasRights (not .Values.store.keyPrefix) (not .Values.store.sharesNames) -}}
{{- fail "callers reach keys of other programs in the store: set store.keyPrefix, or store.sharesNames=true if names are shared on purpose or locks without a prefix are in use" -}}
{{- end -}}
{{- if hasPrefix "embedded" .Values.store.url -}}
{{- fail "store.url: coordinators do not share the embedded store" -}}
{{- end -}}
{{- if eq (int .Values.service.port) (int .Values.admin.port) -}}
{{- fail "service.port and admin.port must differ" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (gt (int .Values.autoscaling.minReplicas) (int .Values.autoscaling.maxReplicas)) -}}
{{- fail "autoscaling.minReplicas must not exceed autoscaling.maxReplicas" -}}
{{- end -}}
{{- include "lockkeeper.checkMonitoring" . -}}
{{- include "lockkeeper.checkStore" . -}}
{{- end -}}

{{- define "lockkeeper.checkMonitoring" -}}
{{- $monitored := or .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- if and .Values.serviceMonitor.enabled .Values.podMonitor.enabled -}}
{{- fail "serviceMonitor and podMonitor: enable one, or everything is scraped twice" -}}
{{- end -}}
{{- if and $monitored .Values.networkPolicy.enabled (not .Values.networkPolicy.adminFrom) -}}
{{- fail "the network policy shuts Prometheus out: set networkPolicy.adminFrom to its pods or its namespace" -}}
{{- end -}}
{{- if and .Values.prometheusRule.enabled (not $monitored) -}}
{{- fail "prometheusRule needs serviceMonitor.enabled or podMonitor.enabled: without metrics LockkeeperDown always fires" -}}
{{- end -}}
{{- end -}}
