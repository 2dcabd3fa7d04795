//! One line on a terminal, rewritten while a run goes on.

use std::{sync::Arc, time::Duration};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use lockkeeper_base::tasks::spawn_detached;
use tokio::time::interval;
use tokio_util::task::AbortOnDropHandle;

use super::stage::Stage;

/// How often the line is rewritten.
const INTERVAL: Duration = Duration::from_millis(250);

/// The line; it vanishes with this value.
pub(super) struct Progress {
    line: ProgressBar,
    _writer: Option<AbortOnDropHandle<()>>,
}

impl Progress {
    /// Shows the progress of a run; nothing if stderr is no terminal.
    pub(super) fn show(stage: &Arc<Stage>) -> Self {
        let line = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        let writer = (!line.is_hidden()).then(|| {
            let (line, stage) = (line.clone(), Arc::clone(stage));
            line.set_style(
                ProgressStyle::with_template("{msg}")
                    .unwrap_or_else(|_| ProgressStyle::default_bar()),
            );
            let mut ticks = interval(INTERVAL);
            AbortOnDropHandle::new(spawn_detached("progress", async move {
                loop {
                    ticks.tick().await;
                    line.set_message(stage.progress());
                }
            }))
        });
        Self {
            line,
            _writer: writer,
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line.finish_and_clear();
    }
}
