//! The part of Kubernetes' schema that our manifests use, with the names and the types of its API
//! reference; anything else is refused.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", deny_unknown_fields)]
pub(super) enum Document {
    Secret(Secret),
    Deployment(Deployment),
    Service(Service),
    PodDisruptionBudget(Budget),
    ServiceAccount(ServiceAccount),
    NetworkPolicy(NetworkPolicy),
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Secret {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    #[serde(rename = "type")]
    pub(super) _type: String,
    pub(super) string_data: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Deployment {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    pub(super) spec: DeploymentSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DeploymentSpec {
    pub(super) replicas: u32,
    pub(super) selector: Selector,
    #[serde(rename = "strategy")]
    _strategy: Option<Strategy>,
    pub(super) template: Template,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Strategy {
    #[serde(rename = "type")]
    _type: String,
    #[serde(rename = "rollingUpdate")]
    _rolling_update: RollingUpdate,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RollingUpdate {
    #[serde(rename = "maxUnavailable")]
    _max_unavailable: u32,
    #[serde(rename = "maxSurge")]
    _max_surge: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Template {
    pub(super) metadata: PodMetadata,
    pub(super) spec: PodSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PodMetadata {
    pub(super) labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PodSpec {
    pub(super) service_account_name: Option<String>,
    pub(super) automount_service_account_token: bool,
    #[serde(rename = "enableServiceLinks")]
    _enable_service_links: Option<bool>,
    pub(super) termination_grace_period_seconds: u64,
    pub(super) security_context: PodSecurity,
    #[serde(rename = "topologySpreadConstraints", default)]
    _topology_spread_constraints: Vec<Spread>,
    #[serde(default)]
    pub(super) init_containers: Vec<Container>,
    pub(super) containers: Vec<Container>,
    #[serde(default)]
    pub(super) volumes: Vec<Volume>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spread {
    #[serde(rename = "maxSkew")]
    _max_skew: u32,
    #[serde(rename = "topologyKey")]
    _topology_key: String,
    #[serde(rename = "whenUnsatisfiable")]
    _when_unsatisfiable: String,
    #[serde(rename = "labelSelector")]
    _label_selector: Selector,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PodSecurity {
    pub(super) run_as_non_root: bool,
    pub(super) run_as_user: u32,
    #[serde(rename = "runAsGroup")]
    _run_as_group: u32,
    #[serde(rename = "fsGroup")]
    _fs_group: u32,
    #[serde(rename = "seccompProfile")]
    _seccomp_profile: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Container {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) restart_policy: Option<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) env: Vec<Variable>,
    #[serde(default)]
    pub(super) ports: Vec<ContainerPort>,
    pub(super) startup_probe: Option<Probe>,
    pub(super) readiness_probe: Option<Probe>,
    pub(super) liveness_probe: Option<Probe>,
    pub(super) lifecycle: Option<Lifecycle>,
    pub(super) security_context: Security,
    pub(super) resources: Resources,
    #[serde(default)]
    pub(super) volume_mounts: Vec<Mount>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Variable {
    pub(super) name: String,
    pub(super) value: Option<String>,
    pub(super) value_from: Option<ValueFrom>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ValueFrom {
    pub(super) secret_key_ref: KeyRef,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeyRef {
    pub(super) name: String,
    pub(super) key: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ContainerPort {
    pub(super) name: String,
    pub(super) container_port: u16,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Probe {
    pub(super) http_get: Option<HttpGet>,
    pub(super) exec: Option<Exec>,
    pub(super) period_seconds: u32,
    pub(super) timeout_seconds: u32,
    pub(super) failure_threshold: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct HttpGet {
    pub(super) path: String,
    pub(super) port: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Lifecycle {
    pub(super) pre_stop: PreStop,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PreStop {
    pub(super) exec: Exec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Exec {
    pub(super) command: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Security {
    pub(super) allow_privilege_escalation: bool,
    pub(super) read_only_root_filesystem: bool,
    pub(super) capabilities: Capabilities,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Capabilities {
    pub(super) drop: Vec<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Resources {
    pub(super) requests: BTreeMap<String, String>,
    pub(super) limits: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Mount {
    pub(super) name: String,
    #[serde(rename = "mountPath")]
    pub(super) path: String,
    pub(super) read_only: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Volume {
    pub(super) name: String,
    pub(super) secret: SecretVolume,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SecretVolume {
    pub(super) secret_name: String,
    pub(super) items: Vec<Item>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Item {
    pub(super) key: String,
    pub(super) path: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Selector {
    pub(super) match_labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Service {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    pub(super) spec: ServiceSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServiceSpec {
    #[serde(rename = "clusterIP")]
    _cluster_ip: String,
    pub(super) selector: BTreeMap<String, String>,
    pub(super) ports: Vec<ServicePort>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServicePort {
    #[serde(rename = "name")]
    _name: String,
    pub(super) port: u16,
    pub(super) target_port: String,
    #[serde(rename = "appProtocol")]
    _app_protocol: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Budget {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    pub(super) spec: BudgetSpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BudgetSpec {
    #[serde(rename = "maxUnavailable")]
    _max_unavailable: u32,
    pub(super) selector: Selector,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ServiceAccount {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    pub(super) automount_service_account_token: bool,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NetworkPolicy {
    pub(super) api_version: String,
    pub(super) metadata: Metadata,
    pub(super) spec: NetworkPolicySpec,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NetworkPolicySpec {
    pub(super) pod_selector: Selector,
    pub(super) policy_types: Vec<String>,
    pub(super) ingress: Vec<Ingress>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ingress {
    pub(super) from: Vec<Peer>,
    pub(super) ports: Vec<IngressPort>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Peer {
    #[serde(rename = "podSelector")]
    _pod_selector: BTreeMap<String, BTreeMap<String, String>>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct IngressPort {
    pub(super) port: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metadata {
    pub(super) name: String,
    #[serde(rename = "labels")]
    _labels: BTreeMap<String, String>,
}
