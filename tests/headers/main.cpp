// The test is that this program builds.
int main() { return 0; }
