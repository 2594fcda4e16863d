#ifndef MINFER_LOAD_H
#define MINFER_LOAD_H

// minfer_load opens the CUDA driver and initializes it. It returns the driver's code, 0 if all is well; -1 if there is no
// driver, and then the reason.
int minfer_load(char* reason, int reason_bytes);

#endif
