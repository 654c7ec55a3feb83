"""From text to spans: settings, and byte arithmetic that cleans and cuts texts."""
