//! Whether the snapshot may answer a query by itself, given the disproved assumptions.
//!
//! Pure. It does not know terms in doubt; [`crate::snapshot::dataset`] does. Callers: [`crate::answer`] before it
//! answers, [`crate::audit`] before it compares.

use crate::api::query::ListQuery;
use crate::snapshot::meta::Assumption;

/// Whether the answer to a query relies on a disproved assumption. `None`: not checked yet.
pub(crate) fn relies_on_disproved(disproved: Option<&[Assumption]>, query: &ListQuery) -> bool {
    disproved.unwrap_or_default().iter().any(|assumption| match assumption {
        Assumption::And => query.filters().count() > 1,
        Assumption::Strict | Assumption::Midnight => query.modified_since.is_some(),
        Assumption::Order => query.filters().next().is_some(),
    })
}
