//! The weights for others to read, in the safetensors format.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::Tensor;
use serde::Serialize;

/// Length of the header is a multiple of this, so that the data is aligned.
const ALIGNMENT: usize = 8;
/// Bytes of an F32.
const WIDTH: usize = 4;

/// Writes every parameter of a model as F32, named by its path (`encoder.conv1.weight`), in the order of the names: equal
/// weights make equal files.
///
/// One tensor at a time is in memory besides the model. The caller flushes the file to the disk.
///
/// # Sources
///
/// The format: `safetensors` 0.8, "Format": 8 bytes of header length, a JSON header, the data.
pub(super) fn write<M: Module>(path: &Path, model: &M) -> io::Result<()> {
    let mut shapes = Shapes::default();
    model.visit(&mut shapes);
    let (header, offsets) = layout(shapes.found)?;
    let mut file = File::create(path)?;
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(header.as_bytes())?;
    let begin = (WIDTH * 2 + header.len()) as u64;
    let mut data = Data { path: Vec::new(), file: &mut file, begin, offsets, outcome: Ok(()) };
    model.visit(&mut data);
    data.outcome
}

#[derive(Serialize)]
struct Entry {
    dtype: &'static str,
    shape: Vec<usize>,
    data_offsets: [u64; 2],
}

/// Where each tensor begins in the data.
type Offsets = BTreeMap<String, u64>;

fn layout(shapes: BTreeMap<String, Vec<usize>>) -> io::Result<(String, Offsets)> {
    let (mut end, mut offsets) = (0, Offsets::new());
    let entry = |(name, shape): (String, Vec<usize>)| {
        let begin = end;
        end += (shape.iter().product::<usize>() * WIDTH) as u64;
        offsets.insert(name.clone(), begin);
        (name, Entry { dtype: "F32", shape, data_offsets: [begin, end] })
    };
    let entries: BTreeMap<_, _> = shapes.into_iter().map(entry).collect();
    let mut header = serde_json::to_string(&entries).map_err(io::Error::other)?;
    header.push_str(&" ".repeat(header.len().next_multiple_of(ALIGNMENT) - header.len()));
    Ok((header, offsets))
}

/// Collects the shape of each parameter.
#[derive(Default)]
struct Shapes {
    path: Vec<String>,
    found: BTreeMap<String, Vec<usize>>,
}

impl ModuleVisitor for Shapes {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.found.insert(self.path.join("."), param.val().dims().to_vec());
    }
}

/// Writes each parameter to its place.
struct Data<'a> {
    path: Vec<String>,
    file: &'a mut File,
    begin: u64,
    offsets: Offsets,
    outcome: io::Result<()>,
}

impl Data<'_> {
    fn put<const D: usize>(&mut self, tensor: Tensor<D>) -> io::Result<()> {
        let offset = self.offsets.get(&self.path.join(".")).copied().unwrap_or(0);
        let values = tensor.try_into_data().map_err(io::Error::other)?;
        let bytes: Vec<u8> = values.iter::<f32>().flat_map(f32::to_le_bytes).collect();
        self.file.seek(SeekFrom::Start(self.begin + offset))?;
        self.file.write_all(&bytes)
    }
}

impl ModuleVisitor for Data<'_> {
    fn enter_module(&mut self, name: &str, _container_type: &str) {
        self.path.push(name.to_owned());
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        if self.outcome.is_ok() {
            self.outcome = self.put(param.val());
        }
    }
}
