//! Edges: odd requests to which the API's documentation gives no answer, and what was learned of an origin's answers.
//!
//! Pure: [`case`] names the cases, [`odd`] reads an odd query, [`spelling`] compares values, [`lesson`] says what was learned, [`template`] fills values
//! into bodies, [`judge`] turns two answers into a lesson. What an odd query selects is in [`crate::snapshot::edges`].
//! Callers: [`crate::snapshot::edges`], [`crate::mirror`] learns, [`crate::answer`] and [`crate::audit`] apply,
//! [`crate::bundle`] carries.

pub(crate) mod case;
pub(crate) mod judge;
pub(crate) mod lesson;
pub(crate) mod odd;
pub(crate) mod spelling;
pub(crate) mod template;
