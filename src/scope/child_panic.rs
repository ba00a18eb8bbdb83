//! The panic of a child, which its scope passes on.

use std::any::Any;

use crate::task::{self, PASSED_ON, Thrown};

/// The panic of a child that was not joined.
pub(crate) struct ChildPanic {
    pub(super) payload: Box<dyn Any + Send>,
    /// The place of the panic, if it is known.
    pub(super) thrown: Option<Thrown>,
    /// The child's description.
    pub(super) task: String,
}

impl ChildPanic {
    /// Panics in the scope's task with the child's message.
    #[cold]
    #[track_caller]
    pub(super) fn pass_on(self: Box<Self>) -> ! {
        let text = self.text();
        // Dropped before the panic begins: a second panic during unwinding would abort the process.
        task::drop_quietly(self);
        panic!("{text}");
    }

    /// Returns the message of the scope's panic.
    fn text(&self) -> String {
        let text = task::text_of(&*self.payload);
        if let Some(text) = text.filter(|text| text.starts_with(PASSED_ON)) {
            // The child has passed on the panic of one of its own children. That panic is the
            // cause.
            return text.to_owned();
        }
        let place = self.thrown.as_ref().and_then(|thrown| thrown.place.as_ref());
        let place = place.map_or_else(String::new, |place| format!(", at {place}"));
        let text = text.map_or_else(String::new, |text| format!(": {text}"));
        format!("{PASSED_ON}{}{place}{text}", self.task)
    }
}
