//! tracewright turns a week of LLM gateway logs into a load test that can be believed.
//!
//! One chain, a file between each two steps:
//!
//! ```text
//! gateway logs ─ingest─► trace.parquet ─fit─► model.json ─┐
//!                              └────────────────────────────┼─plan─► plan.parquet ─replay─► run/ ─report─► report.md
//! texts ─────────pool──► prompt-pools/NAME/ ───────────────┘
//! ```
//!
//! Stages never import each other: what passes between them is a value of [`domain`] or a file.
//! `ARCHITECTURE.md` has the map.

pub mod cli;
pub mod domain;
pub mod export;
pub mod fit;
pub mod ingest;
pub mod mock;
pub mod plan;
pub mod pool;
pub mod replay;
pub mod report;
pub mod run;
pub mod table;
