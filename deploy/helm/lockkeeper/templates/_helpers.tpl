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

{{- /* What no values can have meant. */ -}}
{{- define "lockkeeper.check" -}}
{{- if and .Values.tls.clientCertificates (not .Values.tls.secretName) -}}
{{- fail "tls.clientCertificates needs tls.secretName" -}}
{{- end -}}
{{- if not (or (include "lockkeeper.authenticates" .) .Values.auth.allowUnauthenticated) -}}
{{- fail "nobody is asked who they are: set auth.tokensSecret, auth.jwks or tls.clientCertificates, or auth.allowUnauthenticated=true" -}}
{{- end -}}
{{- if and (include "lockkeeper.authenticates" .) .Values.auth.allowUnauthenticated -}}
{{- fail "auth.allowUnauthenticated is for coordinators that ask nobody" -}}
{{- end -}}
{{- if and (or .Values.auth.tokensSecret .Values.auth.jwks) (not .Values.tls.secretName) -}}
{{- fail "tokens are for whoever reads them: set tls.secretName too" -}}
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
{{- end -}}
