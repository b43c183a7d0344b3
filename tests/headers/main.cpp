// That this program was built is the test.
int main() { return 0; }
