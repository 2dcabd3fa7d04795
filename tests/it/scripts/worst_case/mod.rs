//! No script keeps a Redis from others for long, and no reply is large, whatever a tenant or
//! another program has put under a name.

mod cases;
mod meter;
mod planting;
mod replies;
