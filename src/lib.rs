//! grandstand
