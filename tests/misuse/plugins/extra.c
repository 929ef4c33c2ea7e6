void helper(void);
void helper(void) {}
