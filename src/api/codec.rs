//! How messages become bytes: as tonic does by itself, but with buffers as large as our messages
//! are. Its own are 8 kB for each call, and a call that waits keeps one of them.

use std::{any::TypeId, marker::PhantomData};

use prost::Message;
use tonic::codec::{BufferSettings, Codec};
use tonic_prost::{ProstCodec, ProstDecoder, ProstEncoder};

use crate::pb;

/// Room for nearly every message without growing.
const MESSAGE_BYTES: usize = 256;

/// Sessions say a lot at once.
const SESSION_BYTES: usize = 8 * 1024;

/// More than this is sent before more is made ready.
const YIELD_BYTES: usize = 32 * 1024;

/// The codec of all services.
#[derive(Debug)]
pub struct SizedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for SizedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for SizedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = ProstDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(buffers::<T>())
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(buffers::<U>())
    }
}

fn buffers<M: 'static>() -> BufferSettings {
    let frames = [
        TypeId::of::<pb::SessionRequest>(),
        TypeId::of::<pb::SessionResponse>(),
    ];
    let bytes = if frames.contains(&TypeId::of::<M>()) {
        SESSION_BYTES
    } else {
        MESSAGE_BYTES
    };
    BufferSettings::new(bytes, YIELD_BYTES)
}
