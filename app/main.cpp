namespace ridge::app {
int run_cli(int argc, const char* const* argv); // avoids including the option parser
}

int main(int argc, char** argv) { return ridge::app::run_cli(argc, argv); }
