//! Options that every verb takes.

use crate::domain::seed::Seed;

/// Options that every verb takes.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Globals {
    /// Seed of every random draw
    ///
    /// Equal inputs and an equal seed give byte-equal files.
    #[arg(
        long,
        global = true,
        default_value_t = 42,
        value_name = "N",
        visible_alias = "random-seed"
    )]
    pub(crate) seed: u64,
    /// Print errors only
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Draw no progress bars
    #[arg(long, global = true)]
    pub(crate) no_progress: bool,
    /// Overwrite an existing output
    #[arg(long, global = true)]
    pub(crate) force: bool,
}

impl Globals {
    /// Returns the options of a step that is not shown: the same seed, nothing printed.
    pub(crate) const fn silent(&self) -> Self {
        Self { seed: self.seed, quiet: true, no_progress: true, force: false }
    }

    /// Returns the seed.
    pub(crate) const fn seed(&self) -> Seed {
        Seed(self.seed)
    }
}
