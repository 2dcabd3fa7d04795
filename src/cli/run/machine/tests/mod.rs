mod running;
mod story;
mod waiting;
