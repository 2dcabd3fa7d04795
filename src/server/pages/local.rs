//! What the pages of this coordinator are read from.

use lockkeeper_coordinator::Coordinator;

use super::samples::Samples;
use crate::probe::StoreProbe;

/// This coordinator, as its pages show it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Local {
    pub(crate) coordinator: Coordinator,
    pub(crate) probe: StoreProbe,
    pub(crate) samples: Samples,
}
