//! What a job is called that does not say it.

use burn::module::{Module, ModuleVisitor, Param};
use burn::tensor::{Bool, Int, Tensor};

/// Returns the last part of a type's path.
pub(crate) fn name_of_type<T: ?Sized>() -> &'static str {
    let path = std::any::type_name::<T>();
    let path = path.split_once('<').map_or(path, |it| it.0);
    path.rsplit("::").next().unwrap_or(path)
}

/// Describes the parameters of a model: how many there are, and what tells their names and shapes from others.
///
/// Parameters that are not made yet stay so.
pub(crate) fn parameters<M: Module>(model: &M) -> String {
    let mut shapes = Shapes::default();
    model.visit(&mut shapes);
    let Shapes { text, n_tensors, n_values, .. } = shapes;
    format!("{n_values} parameters in {n_tensors} tensors, checksum {:016x}", checksum(&text))
}

/// FNV-1a; any hash that is the same in every process would do.
pub(crate) fn checksum(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The shapes of all parameters, in their order, with the fields that they lie in.
#[derive(Default)]
struct Shapes {
    text: String,
    n_tensors: usize,
    n_values: usize,
}

impl Shapes {
    fn note(&mut self, kind: &str, shape: &[usize]) {
        self.text.extend([kind, &format!("{shape:?}"), ";"]);
        self.n_tensors += 1;
        self.n_values += shape.iter().product::<usize>();
    }
}

impl ModuleVisitor for Shapes {
    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        self.note("float", &param.lazy_shape());
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        self.note("int", &param.lazy_shape());
    }

    fn visit_bool<const D: usize>(&mut self, param: &Param<Tensor<D, Bool>>) {
        self.note("bool", &param.lazy_shape());
    }

    fn enter_module(&mut self, name: &str, container_type: &str) {
        self.text.extend([name, ":", container_type, "{"]);
    }

    fn exit_module(&mut self, _name: &str, _container_type: &str) {
        self.text.push('}');
    }
}

#[cfg(test)]
mod tests {
    use burn::nn::LinearConfig;
    use burn::tensor::Device;

    use super::*;

    struct Own<T>(T);

    #[test]
    fn a_type_is_called_by_the_last_part_of_its_path() {
        assert_eq!(name_of_type::<Own<std::sync::Arc<u8>>>(), "Own");
        assert_eq!(name_of_type::<str>(), "str");
    }

    #[test]
    fn models_of_other_shapes_have_other_descriptions_and_none_is_made_for_it() {
        let device = Device::flex();
        let [model, same, wider] = [3, 3, 4].map(|n| LinearConfig::new(2, n).init(&device));
        assert_eq!(parameters(&model), parameters(&same));
        assert_ne!(parameters(&model), parameters(&wider));
        assert!(parameters(&model).starts_with("9 parameters in 2 tensors"), "{}", parameters(&model));
        assert!(!model.weight.is_initialized());
        // As many numbers, in other places.
        let [tall, flat] = [(2, 4), (4, 2)].map(|(n, m)| LinearConfig::new(n, m).with_bias(false).init(&device));
        assert_ne!(parameters(&tall), parameters(&flat));
    }
}
