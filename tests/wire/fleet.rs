//! Many machines: what one writes to an object store, others follow.

mod replica;
