// With AddressSanitizer, libraries stay loaded to the end: a leak in a driver that has gone could not be told from ours.
#if defined(__SANITIZE_ADDRESS__)
extern "C" int dlclose(void*) { return 0; }
#endif
