//! No script keeps a Redis from others for long, whatever a tenant has put under a name.

mod cases;
mod meter;
mod planting;
