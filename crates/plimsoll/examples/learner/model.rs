//! A small convolutional network.

use burn::module::Module;
use burn::nn::conv::{Conv2d, Conv2dConfig};
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::pool::MaxPool2dConfig;
use burn::nn::{Linear, LinearConfig, PaddingConfig2d};
use burn::tensor::activation::relu;
use burn::tensor::{Device, Tensor};
use burn::train::{ClassificationOutput, InferenceStep, TrainOutput, TrainStep};

use super::data::{EDGE, ImageBatch, SHAPES};

#[derive(Module, Debug)]
pub(crate) struct Net {
    first: Conv2d,
    second: Conv2d,
    output: Linear,
}

impl Net {
    pub(crate) fn init(device: &Device) -> Self {
        let layer = |channels| Conv2dConfig::new(channels, [3, 3]).with_padding(PaddingConfig2d::Same).init(device);
        let output = LinearConfig::new(16 * (EDGE / 4).pow(2), SHAPES).init(device);
        Self { first: layer([1, 8]), second: layer([8, 16]), output }
    }

    pub(crate) fn forward(&self, images: Tensor<4>) -> Tensor<2> {
        let pool = MaxPool2dConfig::new([2, 2]).init();
        let images = pool.forward(relu(self.first.forward(images)));
        let images = pool.forward(relu(self.second.forward(images)));
        self.output.forward(images.flatten(1, 3))
    }

    fn classify(&self, batch: ImageBatch) -> ClassificationOutput {
        let output = self.forward(batch.images);
        let loss = CrossEntropyLossConfig::new().init(&output.device()).forward(output.clone(), batch.shapes.clone());
        ClassificationOutput::new(loss, output, batch.shapes)
    }
}

impl TrainStep for Net {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> TrainOutput<ClassificationOutput> {
        let item = self.classify(batch);
        TrainOutput::new(self, item.loss.backward(), item)
    }
}

impl InferenceStep for Net {
    type Input = ImageBatch;
    type Output = ClassificationOutput;

    fn step(&self, batch: ImageBatch) -> ClassificationOutput {
        self.classify(batch)
    }
}
