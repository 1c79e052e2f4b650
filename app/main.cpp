namespace ridge::app {
int run_cli(int argc, const char* const* argv); // app/cli/cli.h, which brings the parser of options
}

int main(int argc, char** argv) { return ridge::app::run_cli(argc, argv); }
