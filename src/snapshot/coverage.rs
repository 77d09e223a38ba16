//! Whether the snapshot may answer a query by itself, given what the origin disproved.
//!
//! Pure. It knows nothing of terms in doubt: those [`crate::snapshot::dataset`] tells. Callers: [`crate::answer`] before
//! it answers, [`crate::audit`] before it compares.

use crate::api::query::ListQuery;
use crate::snapshot::version::Assumption;

/// Whether the snapshot would answer a query by something that the origin disproved. `None`: it was not asked yet.
pub(crate) fn relies_on_disproved(disproved: Option<&[Assumption]>, query: &ListQuery) -> bool {
    disproved.unwrap_or_default().iter().any(|assumption| match assumption {
        Assumption::And => query.filters().count() > 1,
        Assumption::Strict | Assumption::Midnight => query.modified_since.is_some(),
        Assumption::Order => query.filters().next().is_some(),
    })
}
