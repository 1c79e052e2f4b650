#include "app/cli/cli.h"

int main(int argc, char** argv) { return ridge::app::run_cli(argc, argv); }
