// Ten thousand tokens in a row: the graph whose kernels overlap must choose what the same kernels choose one by one. A
// race between a kernel and the next would show here before it shows in anyone's text.
#include "device.h"
#include "support/executor_runs.h"

using namespace ridge;
using kernels::cuda::CudaOptions;
using quant::Type;

TEST_CASE("CUDA: 10,000 tokens are the same with overlapping kernels in a graph as launched one by one") {
  REQUIRE_DEVICE();
  const uint64_t seed = tests::fresh_seed();
  CAPTURE(seed);
  tests::RandomProgram model(seed);
  tests::RandomProgram::Shape shape;
  shape.vocab = 3000;
  model.transformer(shape, Type::Q4_K, Type::Q6_K);
  core::ExecutorConfig config = tests::fast_config();
  config.context = 10240;
  CudaOptions one_by_one;
  one_by_one.graphs = one_by_one.overlap = false;
  const std::vector<int32_t> start = {5}, zero = {0};
  const auto tokens_of = [&](const CudaOptions& options) {
    return kernels::cuda::make_cuda_executor(model.program, config, options)->generate_greedy(start, zero, zero, 10000);
  };
  const std::vector<int32_t> graph = tokens_of({});
  CHECK(graph.size() == 10000);
  CHECK(graph == tokens_of(one_by_one));
}
