int placeholder_of_api_test() { return 0; }
