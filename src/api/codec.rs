//! How messages become bytes and bytes messages: as tonic does by itself, but with buffers as large
//! as our messages are, and with fewer steps. Its own buffers are 8 kB for each call, and a call
//! that waits keeps one of them.

use std::{any::TypeId, marker::PhantomData};

use prost::{
    Message,
    bytes::{Buf as _, BufMut as _},
};
use tonic::{
    Status,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

use crate::pb;

/// Room for nearly every message without growing.
const MESSAGE_BYTES: usize = 256;

/// Sessions say several things at once. A stream keeps two buffers of this size, and larger ones
/// once it needs them.
const SESSION_BYTES: usize = 1024;

/// More than this is sent before more is made ready.
const YIELD_BYTES: usize = 32 * 1024;

/// The codec of all services.
#[derive(Debug)]
pub struct SizedCodec<T, U>(PhantomData<(T, U)>);

/// Encodes a message in one piece. Prost writes it in many, byte by byte, and for a buffer that
/// grows each of them is a call.
#[derive(Debug)]
pub struct SizedEncoder<T>(PhantomData<T>);

/// Decodes a message from one piece. Prost reads it byte by byte, and of a buffer that is filled
/// meanwhile each of them is a call.
#[derive(Debug)]
pub struct SizedDecoder<U>(PhantomData<U>);

// === impl SizedCodec ===

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
    type Encoder = SizedEncoder<T>;
    type Decoder = SizedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        SizedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        SizedDecoder(PhantomData)
    }
}

// === impl SizedEncoder ===

impl<T: Message + 'static> Encoder for SizedEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let mut short = [0; MESSAGE_BYTES];
        let mut room = &mut short[..];
        if message.encode(&mut room).is_ok() {
            let used = MESSAGE_BYTES - room.len();
            buffer.put_slice(&short[..used]);
        } else {
            let mut long = vec![0; message.encoded_len()];
            let error = message.encode(&mut &mut long[..]).err();
            debug_assert_eq!(error, None, "it has the room that it says it needs");
            buffer.put_slice(&long);
        }
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers::<T>()
    }
}

// === impl SizedDecoder ===

impl<U: Message + Default + 'static> Decoder for SizedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let (whole, piece) = (buffer.remaining(), buffer.chunk());
        let message = if piece.len() == whole {
            let message = U::decode(piece);
            buffer.advance(whole);
            message
        } else {
            U::decode(buffer)
        };
        message
            .map(Some)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffers::<U>()
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
